package mariadb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// wantHealthChecks fails unless exactly these subjects are worse than OK; each value has texts of
// the message and the remedy, divided by "|".
func wantHealthChecks(t *testing.T, got []participant.Check, want map[string]string) {
	t.Helper()
	found := map[string]bool{}
	for _, d := range got {
		if d.Subject == "" || d.Message == "" || d.Level == 0 || d.Level == participant.OK && d.Remedy != "" {
			t.Errorf("incomplete: %+v", d)
		}
		if strings.Contains(d.Message+d.Remedy, "IDENTIFIED") {
			t.Errorf("shows secrets: %+v", d)
		}
		if d.Level == participant.OK {
			continue
		}
		found[d.Subject] = true
		says, wanted := want[d.Subject]
		if !wanted {
			t.Errorf("%+v", d)
		}
		for _, text := range strings.Split(says, "|") {
			if !strings.Contains(fmt.Sprint(d.Level)+d.Message+d.Remedy, text) {
				t.Errorf("%+v does not say %q", d, text)
			}
		}
	}
	for subject := range want {
		if !found[subject] {
			t.Errorf("nothing is said of %s: %v", subject, got)
		}
	}
}

// TestCheckHealthOfASoundServer: a server without a problem.
func TestCheckHealthOfASoundServer(t *testing.T) {
	bank := newBankOn(t, testdb.OpenMariaDB(t, testdb.MariaDBConfig{}))
	r := bank.opened(t, nil)
	wantHealthChecks(t, r.CheckHealth(t.Context()), map[string]string{"marker table": "does not exist yet|CREATE TABLE|GRANT SELECT"})
	check(t, r.Check(t.Context()))
	got := r.CheckHealth(t.Context())
	wantHealthChecks(t, got, nil)
	if len(got) != 11 {
		t.Errorf("%d diagnoses: %v", len(got), got)
	}
}

// TestCheckHealthOfAnUnsoundServer: a server with all problems at once.
func TestCheckHealthOfAnUnsoundServer(t *testing.T) {
	bank := newBankOn(t, testdb.OpenMariaDB(t, testdb.MariaDBConfig{Binlog: true, NoFsync: true, Settings: map[string]string{"wait-timeout": "30", "transaction-isolation": "READ-UNCOMMITTED"}}))
	bank.exec(t, "CREATE USER weak@'127.0.0.1' IDENTIFIED BY ''")
	bank.exec(t, "GRANT PROCESS ON *.* TO weak@'127.0.0.1'")
	bank.exec(t, "GRANT SELECT ON "+bank.name+".* TO weak@'127.0.0.1'")
	check(t, bank.opened(t, nil).Check(t.Context()))
	w := bank.work(t, "another owner's", "INSERT INTO account VALUES ('alice', 1)")
	defer w.Release()
	vote, err := w.Prepare(t.Context())
	if vote != txn.VotePrepared {
		t.Fatal(err)
	}
	bank.exec(t, "SET GLOBAL read_only = ON")
	p, err := open(map[string]string{"dsn": bank.server.DSNAs("weak", bank.name)})
	check(t, err)
	defer func() { check(t, p.Close()) }()
	wantHealthChecks(t, p.(participant.HealthChecker).CheckHealth(t.Context()), map[string]string{
		"marker table":                   "3|GRANT SELECT, INSERT, UPDATE, DELETE ON `txmgr_branch` TO 'weak'@'127.0.0.1'",
		"privileges":                     "2|GRANT CONNECTION ADMIN ON *.* TO 'weak'@'127.0.0.1'",
		"read_only":                      "3|SET GLOBAL read_only = OFF",
		"innodb_flush_log_at_trx_commit": "2|it is 2|SET GLOBAL innodb_flush_log_at_trx_commit = 1",
		"log_bin":                        "2|after each crash of the server",
		"sync_binlog":                    "2|SET GLOBAL sync_binlog = 1",
		"isolation":                      "2|READ UNCOMMITTED",
		"wait_timeout":                   "2|it is 30 s|SET GLOBAL wait_timeout",
	})
	if err := p.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("check: %v", err)
	}
	bank.exec(t, "SET GLOBAL read_only = OFF")
	check(t, w.Rollback(t.Context()))
	wantHealthChecks(t, bank.opened(t, map[string]string{"commit_marker": "off"}).CheckHealth(t.Context())[1:2], map[string]string{"marker table": "2|commit_marker=off"})
}

// TestOtherVersionIsRefusedByEveryCall: the version that a server reports can be configured.
func TestOtherVersionIsRefusedByEveryCall(t *testing.T) {
	bank := newBankOn(t, testdb.OpenMariaDB(t, testdb.MariaDBConfig{NoFsync: true, Settings: map[string]string{"version": "8.0.36"}}))
	r := bank.opened(t, nil)
	_, errCommit := r.Commit(t.Context(), newName())
	_, errPrepared := r.Prepared(t.Context(), "")
	for name, err := range map[string]error{"check": r.Check(t.Context()), "commit": errCommit, "prepared": errPrepared} {
		if err == nil || !strings.Contains(err.Error(), "which is not MariaDB") {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantHealthChecks(t, r.CheckHealth(t.Context()), map[string]string{"version": "3|which is not MariaDB|use MariaDB"})
}

// TestGaleraIsRefused: this server is a cluster of one node, without the Galera library.
func TestGaleraIsRefused(t *testing.T) {
	bank := newBankOn(t, testdb.OpenMariaDB(t, testdb.MariaDBConfig{NoFsync: true, Settings: map[string]string{"wsrep-on": "ON"}}))
	r := bank.opened(t, nil)
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "does not replicate XA") {
		t.Errorf("check: %v", err)
	}
	wantHealthChecks(t, r.CheckHealth(t.Context()), map[string]string{"Galera": "3|wsrep_on is ON|without Galera"})
}
