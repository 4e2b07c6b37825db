package main

import (
	"context"
	"errors"
)

// outbox is what many programs do instead of a global transaction: the local transaction of
// PostgreSQL writes a row that tells what MariaDB is to change, and a relay applies it later. The
// caller waits for PostgreSQL only, cannot be refused by MariaDB, and does not find its change there
// when it returns.
type outbox struct {
	manual *manualCommit
	relay  *relay
}

func newOutbox(ctx context.Context, p *pools, h *manualCommit) (*outbox, error) {
	_, errPG := p.pg.Exec(ctx, "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int NOT NULL, amount bigint NOT NULL, began bigint NOT NULL)")
	_, errMy := p.my.ExecContext(ctx, "CREATE TABLE applied (id bigint NOT NULL PRIMARY KEY) ENGINE=InnoDB")
	return &outbox{manual: h, relay: newRelay(p)}, errors.Join(errPG, errMy)
}

const outboxInsert = "INSERT INTO outbox (account, amount, began) VALUES ($1, $2, $3)"

// once is one transaction, with its row of the outbox.
func (o *outbox) once(ctx context.Context, worker int) error {
	began := o.relay.now()
	w := o.manual.begin(worker)
	if err := w.workPG(ctx); err != nil {
		return err
	}
	if err := w.execPG(ctx, "INSERT 0 1", outboxInsert, w.row, 1, int64(began)); err != nil {
		return err
	}
	return w.execPG(ctx, "COMMIT", "COMMIT")
}
