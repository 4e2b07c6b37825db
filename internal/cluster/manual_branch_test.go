package cluster

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

// transferManually moves the amount within the bank by two branches, which it prepares and leaves
// to the coordinator: phase two is entirely the coordinator's.
func (t *transferClients) transferManually(tr *transfer, o txn.Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if _, err := t.c.Begin(ctx, o); err != nil {
		return err
	}
	var votes []txn.BranchVote
	for _, leg := range []entry{{inBank, tr.from, -tr.amount}, {inBank2, tr.to, tr.amount}} {
		branch, err := t.prepareManually(ctx, tr.id, leg)
		if err != nil {
			return err
		}
		votes = append(votes, txn.BranchVote{Branch: branch, Vote: txn.VotePrepared})
	}
	_, err := t.c.Commit(ctx, tr.id, txn.CommitRequest{Votes: votes})
	return err
}

func (t *transferClients) prepareManually(ctx context.Context, id txn.ID, leg entry) (txn.BranchID, error) {
	conn, err := pgx.Connect(ctx, t.m.bankDSN)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return 0, err
	}
	var s postgres.SessionRef
	const who = `SELECT pg_backend_pid(), pg_current_xact_id()::text::bigint, (SELECT system_identifier FROM pg_control_system()),
		(SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())`
	if err := conn.QueryRow(ctx, who).Scan(&s.PID, &s.XID, &s.System, &s.Start); err != nil {
		return 0, err
	}
	branch, err := t.c.Enlist(ctx, id, txn.Enlistment{Participant: leg.place, SessionRef: s.String()})
	if err != nil {
		return 0, err
	}
	if _, err := conn.Exec(ctx, "UPDATE account SET balance = balance + $1 WHERE id = $2", leg.delta, leg.account); err != nil {
		return 0, err
	}
	if _, err := conn.Exec(ctx, "INSERT INTO journal (tx, account, delta) VALUES ($1, $2, $3)", id.String(), leg.account, leg.delta); err != nil {
		return 0, err
	}
	tag, err := conn.Exec(ctx, "PREPARE TRANSACTION '"+branch.XID+"'")
	if err == nil && tag.String() != "PREPARE TRANSACTION" {
		err = fmt.Errorf("PREPARE TRANSACTION answered %s", tag)
	}
	return branch.ID, err
}
