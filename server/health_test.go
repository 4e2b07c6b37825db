package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

func TestHealth(t *testing.T) {
	r := start(t, nil)
	for _, c := range []struct {
		path, want string
		status     int
		ready      error
	}{
		{"/livez", "[+]ping ok\nlivez check passed\n", 200, errors.New("no quorum")},
		{"/healthz", "[+]ping ok\nlivez check passed\n", 200, errors.New("no quorum")},
		{"/readyz", "[+]leader ok\n[+]load ok\n[+]shutdown ok\nreadyz check passed\n", 200, nil},
		{"/readyz", "[-]leader failed: no\n", 503, errors.New("no\nquorum")},
		{"/readyz", "failed: no; quorum\n[+]load ok\n[+]shutdown ok\nreadyz check failed\n", 503, errors.New("no\nquorum")},
	} {
		r.fake.SetReady(c.ready)
		if a := r.get(c.path); a.status != c.status || (c.ready == nil || c.path != "/readyz") && a.body != c.want {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
	}
	r.fake.SetReady(errors.New("no\nquorum"))
	if a := r.get("/readyz"); a.body != "[-]leader failed: no; quorum\n[+]load ok\n[+]shutdown ok\nreadyz check failed\n" {
		t.Errorf("%s", a.body)
	}
	if log := r.log.String(); strings.Contains(log, "readyz") || strings.Contains(log, "livez") {
		t.Errorf("health is logged: %s", log)
	}
}

func TestLog(t *testing.T) {
	r := start(t, nil)
	r.curl("Begin", begin(id1))
	r.curl("Get", `{"id":"tx_01k9x3v7h2m8qf4r6t0bz5n1d0"}`)
	for _, want := range []string{
		"level=DEBUG msg=call method=Begin code=OK duration=",
		"level=INFO msg=call method=Get code=NOT_FOUND duration=",
		"tx=" + id1,
		"tx=tx_01k9x3v7h2m8qf4r6t0bz5n1d0 error=",
	} {
		eventually(t, want, func() bool { return strings.Contains(r.log.String(), want) })
	}
}

// TestLogOfWaitsThatEnd: a wait that reaches a short timeout of its client is logged at debug only.
func TestLogOfWaitsThatEnd(t *testing.T) {
	r := start(t, nil)
	r.curl("Begin", begin(id1))
	if a := r.curl("Wait", `{"id":"`+id1+`","timeout":"1ms"}`); a.header.Get("Txmgr-Code") != "TIMED_OUT" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	eventually(t, "a line", func() bool { return strings.Contains(r.log.String(), "method=Wait code=TIMED_OUT") })
	if !strings.Contains(r.log.String(), "level=DEBUG msg=call method=Wait code=TIMED_OUT") {
		t.Errorf("a wait that ended is told above DEBUG:\n%s", r.log.String())
	}
}

func TestLogOfFailuresIsLimited(t *testing.T) {
	r := start(t, nil)
	started := time.Now()
	for range 400 {
		r.curl("Get", begin(id1))
	}
	// 100 lines at once and 100 more for each second that this took.
	allowed := 101 + int(100*time.Since(started).Seconds())
	if n := strings.Count(r.log.String(), "NOT_FOUND"); n < 100 || n > allowed {
		t.Errorf("%d lines, at most %d allowed", n, allowed)
	}
}

// Invariant 6, and the numbers that operators are promised.
func TestMetrics(t *testing.T) {
	r := start(t, nil)
	r.curl("Begin", begin(id1))
	r.curl("Begin", begin("tx_01k9x3v7h2m8qf4r6t0bz5n1df"))
	r.curl("Begin", begin("tx_01k9x3v7h2m8qf4r6t0bz5n1dg"))
	r.curl("Commit", begin(id1))
	r.curl("Rollback", begin("tx_01k9x3v7h2m8qf4r6t0bz5n1df"))
	r.curl("Commit", begin("tx_01k9x3v7h2m8qf4r6t0bz5n1df"))
	a := r.get("/metrics")
	for _, want := range []string{
		`txmgr_transactions_total{cause="",outcome="committed"} 1`,
		`txmgr_transactions_total{cause="client",outcome="rolled-back"} 1`,
		`txmgr_transactions_total{cause="vote-no",outcome="rolled-back"} 0`,
		`txmgr_transactions_total{cause="session-expired",outcome="rolled-back"} 0`,
		`txmgr_transactions_total{cause="operator",outcome="rolled-back"} 0`,
		`txmgr_transactions_total{cause="timeout",outcome="rolled-back"} 0`,
		"txmgr_transactions_undecided 1\n", "txmgr_transactions_delegated 0\n", "txmgr_transactions_completing 0\n", "txmgr_heuristic_outcomes 0\n", "txmgr_log_entries_total 0\n", "txmgr_log_fsyncs_total 0\n", "txmgr_tick 0\n",
		"txmgr_leader 1\n", "txmgr_term 3\n",
		`txmgr_build_info{version="test"} 1`,
		`txmgr_participant_up{kind="postgres",participant="bank"} 1`,
		`txmgr_participant_limit{kind="postgres",participant="bank"} 4`,
		`txmgr_participant_running{kind="postgres",participant="bank"} 0`,
		`txmgr_participant_queued{kind="postgres",participant="bank"} 0`,
		`txmgr_participant_limit_decisions_total{direction="up",kind="postgres",participant="bank"} 1`,
		`txmgr_participant_limit_decisions_total{direction="down",kind="postgres",participant="bank"} 0`,
		`txmgr_rpc_duration_seconds_count{code="OK",method="Begin"} 3`,
		`txmgr_rpc_duration_seconds_count{code="ROLLED_BACK",method="Commit"} 1`,
		"go_goroutines", "process_cpu_seconds_total",
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(a.body, txn.IDPrefix) {
		t.Error("an id is in the metrics")
	}
}
