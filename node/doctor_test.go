package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func found(ds []admin.Check, subject string) admin.Check {
	i := slices.IndexFunc(ds, func(d admin.Check) bool { return d.Subject == subject })
	if i < 0 {
		return admin.Check{}
	}
	return ds[i]
}

// checkedParticipant is a fakeParticipant with health checks of its own.
type checkedParticipant struct{ *fakeParticipant }

func (checkedParticipant) CheckHealth(context.Context) []participant.Check {
	return []participant.Check{
		{Level: participant.OK, Subject: "paper", Message: "enough"},
		{Level: participant.Warning, Subject: "ink", Message: "runs low", Remedy: "buy ink"},
		{Level: participant.Failure, Subject: "lamp", Message: "broken", Remedy: "lamp --replace"},
	}
}

func TestDoctor(t *testing.T) {
	bank := newFakeParticipant()
	n := open(t, t.TempDir(), with(participantMap{"bank": bank, "post": checkedParticipant{newFakeParticipant()}}))
	ctx := t.Context()
	ds, err := n.Admin().Doctor(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"leader", "disk space", "disk latency", "open files", "log", "unfinished transactions", "heuristic outcomes", "participants", "timeouts", "version"} {
		d := found(ds, subject)
		if d.Participant != "" || d.Message == "" || d.Level == "" || d.Level != "ok" && d.Remedy == "" {
			t.Errorf("%s: %+v", subject, d)
		}
	}
	for subject, text := range map[string]string{
		"leader": "leads cluster " + n.clusterID(), "disk latency": "median of 9", "timeouts": "ticks of 10ms", "heuristic outcomes": "no branch",
		"participants": "none of 2 fails", "unfinished transactions": "0 of at most 4000000",
	} {
		if d := found(ds, subject); !strings.Contains(d.Message, text) {
			t.Errorf("%s: %+v", subject, d)
		}
	}
	want := []admin.Check{
		{Participant: "post", Level: "ok", Subject: "paper", Message: "enough"},
		{Participant: "post", Level: "warning", Subject: "ink", Message: "runs low", Remedy: "buy ink"},
		{Participant: "post", Level: "failure", Subject: "lamp", Message: "broken", Remedy: "lamp --replace"},
	}
	post, err := n.Admin().Doctor(ctx, "post")
	if err != nil || !slices.Equal(post[:3], want) || !slices.Equal(ds[len(ds)-4:], post) {
		t.Errorf("%+v, %v", post, err)
	}
	if d := found(ds, "check"); d.Participant != "bank" || d.Level != "ok" {
		t.Errorf("%+v", d)
	}
	bank.outage(errRefused)
	if ds, err = n.Admin().Doctor(ctx, "bank"); err != nil || found(ds, "check").Level != "failure" || found(ds, "check").Message != "connection refused" {
		t.Errorf("%+v, %v", ds, err)
	}
	_, err = n.Admin().Doctor(ctx, "unknown")
	wantErr(t, "a participant that is not registered", err, txn.ErrNotFound)
}

func TestDoctorSeesWhatIsWrong(t *testing.T) {
	desks := participantMap{"bank": newFakeParticipant(), "stock": newFakeParticipant()}
	n := open(t, t.TempDir(), with(desks), func(c *Config) { c.MaxOpen = 2; c.Recovery.BreakerThreshold = 1 })
	ctx := t.Context()
	makeHeuristic(t, n, desks)
	desks["stock"].(*fakeParticipant).outage(errRefused)
	order(t, n, desks, "stock")
	beginAt(t, n, time.Minute, "bank")
	var ds []admin.Check
	waittest.Until(t, "the failing participant", func() bool {
		var err error
		if ds, err = n.Admin().Doctor(ctx, ""); err != nil {
			t.Fatal(err)
		}
		return found(ds, "participants").Level == "failure"
	})
	for subject, want := range map[string]struct{ level, message, call, of string }{
		"participants":            {"failure", "1 of 2 fail: stock: ", admin.CallDoctor, "stock"},
		"heuristic outcomes":      {"warning", "otherwise than decided: 1", admin.CallInDoubts, ""},
		"unfinished transactions": {"warning", "2 of at most 2: further ones will be refused", admin.CallList, ""},
	} {
		if d := found(ds, subject); d.Level != want.level || !strings.Contains(d.Message, want.message) || d.Remedy == "" || d.Call != want.call || d.CallParticipant != want.of {
			t.Errorf("%s: %+v", subject, d)
		}
	}
	desks["stock"].(*fakeParticipant).outage(nil)
}
