package health

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// stubParticipant answers Check only.
type stubParticipant struct {
	participant.Participant
	check func() error
}

func (s stubParticipant) Check(context.Context) error { return s.check() }

// TestDoctorIsNotHeldUp: a participant that hangs, even if its context ends, or panics does not
// block the checks of the others.
func TestDoctorIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		defer close(free)
		stubs := map[string]func() error{
			"bank": func() error { <-free; return nil },
			"post": func() error { panic(errors.New("paper jam")) },
		}
		p := Participants{
			Open: func(_ context.Context, name string) (participant.Participant, error) {
				return stubParticipant{check: stubs[name]}, nil
			},
			Quota:        func(string) (used, limit int, ok bool) { return 0, 0, false },
			QuotaSetting: "quota",
		}
		start := time.Now()
		ds := CheckAll(t.Context(), NodeFacts{DataDir: t.TempDir()}, p, []string{"bank", "post"})
		if took := time.Since(start); took > participantCheckTimeout {
			t.Errorf("after %v", took)
		}
		var texts []string
		for _, d := range ds {
			if d.Subject == "examination" {
				texts = append(texts, d.Participant+" "+d.Level+" "+d.Message)
			}
		}
		if want := []string{"bank failure no answer within 15s", "post failure the participant panicked: paper jam"}; !slices.Equal(texts, want) {
			t.Errorf("%q", texts)
		}
	})
}
