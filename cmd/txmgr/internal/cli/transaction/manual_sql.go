package transaction

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// printManualSQL prints the SQL for an application that takes part without the SDK.
func printManualSQL(ctx context.Context, a *cli.App, c *client.Client, id txn.ID, b txn.Branch, e txn.Enlistment) error {
	p, err := findParticipant(ctx, c, b.Participant)
	if err != nil {
		return err
	}
	if _, _, _, ours := txn.ParseXID(b.XID); !ours { // letters, digits and underscores: safe in quotes
		return fmt.Errorf("the coordinator answered %q, which is not an XID", output.Sanitize(b.XID))
	}
	var text string
	switch p.Kind {
	case postgres.Kind:
		text = postgresManualSQL(id, b, e.SessionRef)
	case mariadb.Kind:
		if text, err = mariadbManualSQL(id, b, e.SessionRef, p.Settings["commit_marker"]); err != nil {
			return err
		}
	case web.Kind:
		text = webServiceCalls(id, b, p.Settings, e.Payload)
	default:
		return output.Usage(fmt.Sprintf("the branch is enlisted; its XID is %s", b.XID), "participant %s is of kind %s, which has no SQL", b.Participant, p.Kind)
	}
	_, err = io.WriteString(a.Out, text)
	return err
}

func findParticipant(ctx context.Context, c *client.Client, name string) (admin.Participant, error) {
	all, err := c.Admin().Participants(ctx)
	if err != nil {
		return admin.Participant{}, err
	}
	for _, p := range all {
		if p.Name == name {
			return p.Participant, nil
		}
	}
	return admin.Participant{}, fmt.Errorf("participant %s: %w", name, txn.ErrNotFound)
}

// postgresBackendQuery is the query that returns a [postgres.SessionRef]. It assigns the
// transaction its xid, so it must run within the transaction, and before the work.
const postgresBackendQuery = `SELECT format('pid=%s start=%s xid=%s system=%s timeline=%s written=%s', pid, to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), pg_current_xact_id(), (SELECT system_identifier FROM pg_control_system()), left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_logical_emit_message(false, 'txmgr', pg_current_xact_id()::text)) AS session FROM pg_stat_get_activity(pg_backend_pid());`

func postgresManualSQL(id txn.ID, b txn.Branch, session string) string {
	var s strings.Builder
	s.WriteString("BEGIN;\n")
	if session == "" {
		fmt.Fprintf(&s, "%s\n-- give the answer of this query: txmgr enlist %s %s --session '...'\n", postgresBackendQuery, id, b.Participant)
	}
	fmt.Fprintf(&s, `-- your statements on %s
PREPARE TRANSACTION '%s';
-- then: txmgr commit %s --vote %s=prepared
`, b.Participant, b.XID, id, b.ID)
	return s.String()
}

func mariadbManualSQL(id txn.ID, b txn.Branch, session, markerTable string) (string, error) {
	script, err := mariadb.ManualSQL(b.XID, markerTable)
	if err != nil {
		return "", err
	}
	var s strings.Builder
	s.WriteString("-- run all of it on one connection, which stays open until the end\n")
	if script.Table != "" {
		s.WriteString("-- once per database; omit it if the table exists and you may not create tables\n" + script.Table + ";\n")
	}
	if session == "" {
		fmt.Fprintf(&s, "%s AS session;\n-- give the answer of this query: txmgr enlist %s %s --session '...'\n", script.Session, id, b.Participant)
	}
	for _, statement := range script.Begin {
		s.WriteString(statement + ";\n")
	}
	fmt.Fprintf(&s, "-- your statements on %s\n", b.Participant)
	for _, statement := range script.Prepare {
		s.WriteString(statement + ";\n")
	}
	fmt.Fprintf(&s, `-- then: txmgr commit %s --vote %s=prepared --no-wait
-- and if that answers committing, on the same connection (otherwise the coordinator
-- ends the connection, and commits the branch itself):
-- %s;
-- if anything above fails: %s;
`, id, b.ID, script.Commit, script.Rollback)
	return s.String(), nil
}

// webServiceCalls lists the calls that the coordinator makes to a web service.
func webServiceCalls(id txn.ID, b txn.Branch, settings map[string]string, payload []byte) string {
	var s strings.Builder
	fmt.Fprintf(&s, "# the calls of the coordinator, when txmgr commit %s requests the decision:\n", id)
	for i, phase := range []string{"prepare", "commit", "rollback"} {
		url := settings[phase]
		if base := settings["url"]; base != "" {
			url = strings.TrimSuffix(base, "/") + "/" + phase
		}
		if i == 1 {
			s.WriteString("# then one of these, until it is answered:\n")
		}
		fmt.Fprintf(&s, "POST %s\n", url)
		for _, h := range [][2]string{
			{web.HeaderTransaction, id.String()},
			{web.HeaderBranch, b.ID.String()},
			{web.HeaderXID, b.XID},
			{web.HeaderPhase, phase},
			{web.HeaderIdempotency, fmt.Sprintf(`"%s/%s/%s"`, id, b.ID, phase)},
		} {
			fmt.Fprintf(&s, "%s: %s\n", h[0], h[1])
		}
		if len(payload) > 0 {
			s.WriteString("\n" + payloadText(payload) + "\n")
		}
		s.WriteString("\n")
	}
	s.WriteString("# each call has more headers: " + web.HeaderDeadline + ", " + web.HeaderAttempt + ", " + web.HeaderSignature + " with secret_file\n")
	return s.String()
}

func payloadText(payload []byte) string {
	text := string(payload)
	if !utf8.ValidString(text) {
		return fmt.Sprintf("(%d bytes)", len(payload))
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		lines = append(lines, output.Sanitize(line))
	}
	return strings.Join(lines, "\n")
}
