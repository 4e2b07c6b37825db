package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"

	"github.com/txmgr/txmgr/participant/web"
)

// mail is the payload of a branch.
type mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Body    string `json:"body"`
}

// callbacks are the callbacks of the service. The payload comes with every phase, so that nothing
// of a mail has to be stored between them.
func callbacks[S any](b mailStore[S], outbox string) web.Callbacks[S] {
	return web.Callbacks[S]{
		Prepare: func(ctx context.Context, s S, br web.Branch) error {
			if _, err := parse(br.Payload); err != nil {
				return web.No(err.Error())
			}
			return b.move(ctx, s, free, held)
		},
		Commit: func(ctx context.Context, s S, br web.Branch) error {
			m, err := parse(br.Payload)
			if err != nil {
				return err
			}
			if err := m.deliver(outbox, br.XID); err != nil {
				return err
			}
			return b.move(ctx, s, held, sent)
		},
		Rollback: func(ctx context.Context, s S, _ web.Branch) error {
			return b.move(ctx, s, held, free)
		},
	}
}

func parse(payload []byte) (m mail, err error) {
	if err := json.Unmarshal(payload, &m); err != nil {
		return m, fmt.Errorf("not a mail: %w", err)
	}
	to, err := netmail.ParseAddress(m.To)
	if err != nil {
		return m, fmt.Errorf("to: %w", err)
	}
	if strings.ContainsAny(m.Subject, "\r\n") {
		return m, errors.New("subject: has more than one line")
	}
	m.To = to.String()
	return m, nil
}

// deliver writes the mail under a name that contains the branch's XID. The file is not part of the
// local transaction: after a crash it may be written again, and it is still one mail.
func (m mail) deliver(outbox, xid string) error {
	name := filepath.Join(outbox, xid+".eml")
	f, err := os.CreateTemp(outbox, ".*.tmp")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "To: %s\r\nSubject: %s\r\n\r\n%s\r\n", m.To, m.Subject, m.Body)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // a leftover file does no harm
	}
	return err
}
