package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

func found(ds []txn.Diagnosis, subject string) txn.Diagnosis {
	i := slices.IndexFunc(ds, func(d txn.Diagnosis) bool { return d.Subject == subject })
	if i < 0 {
		return txn.Diagnosis{}
	}
	return ds[i]
}

// examined is a desk that can look closer.
type examined struct{ *desk }

func (examined) Examine(context.Context) []participant.Diagnosis {
	return []participant.Diagnosis{
		{Level: participant.Fine, Subject: "paper", Found: "enough"},
		{Level: participant.Warning, Subject: "ink", Found: "runs low", Fix: "buy ink"},
		{Level: participant.Failure, Subject: "lamp", Found: "broken", Fix: "lamp --replace"},
	}
}

func TestDoctor(t *testing.T) {
	bank := newDesk()
	n := open(t, t.TempDir(), with(participants{"bank": bank, "post": examined{newDesk()}}))
	ctx := t.Context()
	ds, err := n.Doctor(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"leader", "disk space", "disk latency", "open files", "log", "unfinished transactions", "hazards", "participants", "timeouts", "version"} {
		d := found(ds, subject)
		if d.Participant != "" || d.Found == "" || d.Level == "" || d.Level != "ok" && d.Fix == "" {
			t.Errorf("%s: %+v", subject, d)
		}
	}
	for subject, text := range map[string]string{
		"leader": "leads cluster " + n.cluster(), "disk latency": "median of 9", "timeouts": "ticks of 10ms", "hazards": "no branch",
		"participants": "none of 2 fails", "unfinished transactions": "0 of at most 4000000",
	} {
		if d := found(ds, subject); !strings.Contains(d.Found, text) {
			t.Errorf("%s: %+v", subject, d)
		}
	}
	want := []txn.Diagnosis{
		{Participant: "post", Level: "ok", Subject: "paper", Found: "enough"},
		{Participant: "post", Level: "warning", Subject: "ink", Found: "runs low", Fix: "buy ink"},
		{Participant: "post", Level: "failure", Subject: "lamp", Found: "broken", Fix: "lamp --replace"},
	}
	post, err := n.Doctor(ctx, "post")
	if err != nil || !slices.Equal(post[:3], want) || !slices.Equal(ds[len(ds)-4:], post) {
		t.Errorf("%+v, %v", post, err)
	}
	if d := found(ds, "check"); d.Participant != "bank" || d.Level != "ok" {
		t.Errorf("%+v", d)
	}
	bank.outage(errRefused)
	if ds, err = n.Doctor(ctx, "bank"); err != nil || found(ds, "check").Level != "failure" || found(ds, "check").Found != "connection refused" {
		t.Errorf("%+v, %v", ds, err)
	}
	_, err = n.Doctor(ctx, "nobody")
	wantErr(t, "a participant that is not registered", err, txn.ErrNotFound)
}

func TestDoctorSeesWhatIsWrong(t *testing.T) {
	desks := participants{"bank": newDesk(), "stock": newDesk()}
	n := open(t, t.TempDir(), with(desks), func(c *Config) { c.MaxOpen = 2; c.Recovery.BreakerAfter = 1 })
	ctx := t.Context()
	hazardous(t, n, desks)
	desks["stock"].(*desk).outage(errRefused)
	order(t, n, desks, "stock")
	beginAt(t, n, time.Minute, "bank")
	var ds []txn.Diagnosis
	until(t, "the failing participant", func() bool {
		var err error
		if ds, err = n.Doctor(ctx, ""); err != nil {
			t.Fatal(err)
		}
		return found(ds, "participants").Level == "failure"
	})
	for subject, want := range map[string][3]string{
		"participants":            {"failure", "1 of 2 fail: stock: ", "txmgr doctor stock"},
		"hazards":                 {"warning", "otherwise than decided: 1", "txmgr doubt list"},
		"unfinished transactions": {"warning", "2 of at most 2: further ones will be refused", "txmgr doubt list"},
	} {
		if d := found(ds, subject); d.Level != want[0] || !strings.Contains(d.Found, want[1]) || !strings.Contains(d.Fix, want[2]) {
			t.Errorf("%s: %+v", subject, d)
		}
	}
	desks["stock"].(*desk).outage(nil)
}

// deaf never answers, whatever its context says, until it is let go.
type deaf struct {
	*desk
	free chan struct{}
}

func (d deaf) Check(context.Context) error {
	<-d.free
	return nil
}

// TestDoctorIsNotHeldUp: by a participant that hangs, or that panics.
func TestDoctorIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := deaf{newDesk(), make(chan struct{})}
		defer close(p.free)
		n := open(t, t.TempDir(), slow, with(participants{"bank": p, "post": panics{newDesk()}}))
		start := time.Now()
		ds, err := n.Doctor(t.Context(), "")
		if took := time.Since(start); err != nil || took > examineTimeout {
			t.Errorf("after %v: %v", took, err)
		}
		var texts []string
		for _, d := range ds {
			if d.Subject == "examination" {
				texts = append(texts, d.Participant+" "+d.Level+" "+d.Found)
			}
		}
		if want := []string{"bank failure no answer within 15s", "post failure the participant panicked: paper jam"}; !slices.Equal(texts, want) {
			t.Errorf("%q", texts)
		}
	})
}

type panics struct{ *desk }

func (panics) Check(context.Context) error { panic(errors.New("paper jam")) }
