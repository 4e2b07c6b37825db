package calls

import (
	"context"
	"errors"
	"strings"
	"testing"
)

var errSecret = errors.New("s3cret")

func redact(err error) error {
	if errors.Is(err, errSecret) {
		return errors.New("(not shown)")
	}
	return err
}

// call makes a call that fails with failure, or when its context ends.
func call(ctx context.Context, c *Calls, ended bool, failure error) (err error) {
	ctx, fail := c.Begin(ctx, "check")
	defer fail(&err)
	if ended {
		<-ctx.Done()
		return ctx.Err()
	}
	return failure
}

func TestErrorNamesTheCall(t *testing.T) {
	boom := errors.New("boom")
	stopped := errors.New("the node stops")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	closed := New("postgres bank", redact)
	closed.Close()
	for name, c := range map[string]struct {
		calls *Calls
		ctx   context.Context
		ended bool
		err   error
		want  string
		is    error
	}{
		"fails":                   {New("postgres bank", redact), t.Context(), false, boom, "postgres bank: check: boom", boom},
		"without secrets":         {New("mariadb shop", nil), t.Context(), false, boom, "mariadb shop: check: boom", boom},
		"fails with a secret":     {New("postgres bank", redact), t.Context(), false, errSecret, "postgres bank: check: (not shown)", nil},
		"its context has ended":   {New("postgres bank", redact), ended, true, nil, "postgres bank: check: context canceled: the node stops", stopped},
		"waits, and is closed":    {closed, t.Context(), true, nil, "postgres bank: check: context canceled: postgres bank: closed", context.Canceled},
		"fails, and is closed":    {closed, t.Context(), false, boom, "postgres bank: check: boom: postgres bank: closed", boom},
		"succeeds, and is closed": {closed, t.Context(), false, nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := call(c.ctx, c.calls, c.ended, c.err)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || err.Error() != c.want || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v; want %s", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Error("a secret is shown")
			}
		})
	}
}

// TestClosedCallSaysSo however early its own error comes after Close.
func TestClosedCallSaysSo(t *testing.T) {
	for range 1000 {
		c := New("postgres bank", nil)
		ctx, fail := c.Begin(t.Context(), "check")
		c.Close()
		err := errors.New("closed pool")
		fail(&err)
		if !strings.HasSuffix(err.Error(), "closed pool: postgres bank: closed") {
			t.Fatal(err)
		}
		if ctx.Err() == nil || c.Closing().Err() == nil {
			t.Fatal("a context has not ended")
		}
	}
}
