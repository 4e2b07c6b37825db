package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/bench/peers/internal/threenodes"
)

// leases are many leases of etcd that end within the same second, which is etcd's resolution.
type leases struct {
	Count   int           `json:"count"`
	Filling time.Duration `json:"filling_ns"` // to grant them, and put a key on each
	// Late is the time from the end of the last lease until the last key is deleted.
	Late time.Duration `json:"late_ns"`
	// First is the same for the first key; negative if it was deleted before the last lease ended.
	First time.Duration `json:"first_ns"`
}

// leaseCallers grant the leases over connections connections.
const (
	leaseCallers     = 256
	leaseConnections = 8
	perLease         = 1500 * time.Microsecond // on a busy machine
)

func (r *report) leases(ctx context.Context, dir string, count int) (err error) {
	progressf("building etcd")
	program, version, err := rig.BuildEtcd(ctx, dir)
	if err != nil {
		return err
	}
	r.Etcd = version
	etcd, err := threenodes.StartEtcd(ctx, dir, program)
	defer func() { err = errors.Join(err, etcd.Stop()) }()
	if err != nil {
		return err
	}
	leader, err := etcd.Leader(ctx)
	if err != nil {
		return err
	}
	var clients [leaseConnections]*clientv3.Client
	for i := range clients {
		if clients[i], err = clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{leader}, DialTimeout: 10 * time.Second}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, clients[i].Close()) }()
	}
	gone := clients[0].Watch(ctx, "due/", clientv3.WithPrefix(), clientv3.WithFilterPut())
	end := time.Now().Add(10*time.Second + time.Duration(count)*perLease)
	progressf("%7d leases of etcd, until %s", count, end.Format(time.TimeOnly))
	began := time.Now()
	last, err := grant(ctx, clients[:], count, end)
	if err != nil {
		return err
	}
	l := &leases{Count: count, Filling: time.Since(began)}
	if err := l.watch(ctx, gone, last); err != nil {
		return err
	}
	progressf("%7d leases of etcd: the last key gone %v late", count, l.Late)
	r.Leases = l
	return nil
}

// grant creates leases that end at the same time, as near as whole seconds allow, and returns the
// latest instant at which one of them ends.
func grant(ctx context.Context, clients []*clientv3.Client, count int, end time.Time) (last time.Time, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		mu   sync.Mutex // guards last
	)
	for caller := range leaseCallers {
		c := clients[caller%len(clients)]
		wg.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1)
				if i > int64(count) {
					return
				}
				ttl := int64(time.Until(end) / time.Second)
				if ttl < 3 {
					cancel(fmt.Errorf("the machine is too busy: %d of %d leases were granted before the first ended", i, count))
					return
				}
				granted, err := c.Grant(ctx, ttl)
				if err == nil {
					_, err = c.Put(ctx, fmt.Sprintf("due/%08d", i), "v", clientv3.WithLease(granted.ID))
				}
				if err != nil {
					cancel(fmt.Errorf("etcd lease: %w", err))
					return
				}
				// It was granted before now, so it ends no later than this.
				mu.Lock()
				if ends := time.Now().Add(time.Duration(granted.TTL) * time.Second); ends.After(last) {
					last = ends
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return last, context.Cause(ctx)
}

// watch counts deleted keys until all are deleted.
func (l *leases) watch(ctx context.Context, gone clientv3.WatchChan, last time.Time) error {
	limit := time.NewTimer(time.Until(last) + 10*time.Minute)
	defer limit.Stop()
	for n := 0; n < l.Count; {
		select {
		case answer := <-gone:
			if err := answer.Err(); err != nil {
				return fmt.Errorf("watch etcd: %w", err)
			}
			if n == 0 && len(answer.Events) > 0 {
				l.First = time.Since(last)
			}
			n += len(answer.Events)
		case <-limit.C:
			return fmt.Errorf("10 minutes after the last lease ended %d of %d keys are gone", n, l.Count)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l.Late = time.Since(last)
	return nil
}
