package bank

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/faultproxy"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/internal/testdb"
)

// servers are a primary of PostgreSQL and its synchronous standby, behind one address that leads to
// the primary.
type servers struct {
	proxy *faultproxy.Proxy

	opMu             sync.Mutex // held while one of them is ended or started
	primary, standby *testdb.Postgres
	promotions       int
}

func startServers(ctx context.Context) (_ *servers, err error) {
	s := &servers{}
	if s.primary, err = testdb.StartPostgres(ctx, testdb.PostgresConfig{}); err != nil {
		return nil, err
	}
	if s.proxy, err = faultproxy.New("127.0.0.1:0", s.address()); err == nil {
		err = s.addStandby(ctx)
	}
	return s, err
}

func (s *servers) address() string { return fmt.Sprintf("127.0.0.1:%d", s.primary.Port()) }

// addStandby gives the primary a standby for which every prepare and commit waits.
func (s *servers) addStandby(ctx context.Context) (err error) {
	if s.standby, err = s.primary.Backup(ctx); err != nil {
		return err
	}
	name := fmt.Sprintf("standby%d", s.promotions)
	if err := s.standby.Follow(ctx, s.primary, name); err != nil {
		return err
	}
	return s.primary.Synchronize(ctx, name)
}

func (s *servers) close() error {
	var errs []error
	if s.proxy != nil {
		s.proxy.Close()
	}
	for _, one := range []*testdb.Postgres{s.primary, s.standby} {
		if one != nil {
			errs = append(errs, one.Close())
		}
	}
	return errors.Join(errs...)
}

// DSN is the DSN of a database of the present primary.
func (s *servers) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.proxy.Address(), database)
}

// CreateDatabase creates an empty database.
func (s *servers) CreateDatabase(ctx context.Context, name string) error {
	return s.primary.CreateDatabase(ctx, name)
}

// restart kills the primary, which stays the primary.
func (s *servers) restart(ctx context.Context, r *rand.Rand) (string, error) {
	s.opMu.Lock()
	defer s.opMu.Unlock()
	return restartDatabase(ctx, s.primary, r)
}

// restartTwice kills the primary, and again when others may have got the transaction numbers that it
// lost: after that only marker rows tell them from those that it had on disk.
func (s *servers) restartTwice(ctx context.Context, r *rand.Rand) (string, error) {
	what, err := s.restart(ctx, r)
	up := between(r, 200*time.Millisecond, time.Second)
	rig.Sleep(ctx, up)
	again, errAgain := s.restart(ctx, r)
	return fmt.Sprintf("%s, up for %v, %s", what, up.Round(time.Millisecond), again), errors.Join(err, errAgain)
}

// failOver kills the primary for good, and promotes the standby, which gets another.
func (s *servers) failOver(ctx context.Context) (string, error) {
	s.opMu.Lock()
	defer s.opMu.Unlock()
	if err := s.primary.Kill(ctx); err != nil {
		return "", err
	}
	if err := s.standby.Promote(ctx); err != nil {
		return "", err
	}
	old := s.primary
	s.primary, s.standby = s.standby, nil
	s.promotions++
	s.proxy.Redirect(s.address())
	s.proxy.Disconnect()
	return fmt.Sprintf("timeline %d", s.promotions+1), errors.Join(old.Close(), s.addStandby(ctx))
}
