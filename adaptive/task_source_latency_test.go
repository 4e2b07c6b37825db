package adaptive

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// readySource is a task source in the order in which tasks became ready.
type readySource struct {
	pool *Pool

	mu    sync.Mutex // guards what follows
	tasks []Task
	ready []time.Time
}

func (s *readySource) add(ready time.Time, tasks ...Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, task := range tasks {
		s.tasks, s.ready = append(s.tasks, task), append(s.ready, ready)
	}
	s.pool.SetReady(len(s.tasks), 0)
}

func (s *readySource) Next(int) (Task, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tasks) == 0 {
		return nil, time.Time{}
	}
	task, ready := s.tasks[0], s.ready[0]
	s.tasks, s.ready = s.tasks[1:], s.ready[1:]
	s.pool.SetReady(len(s.tasks), 0)
	return task, ready
}

// keep makes the spy sum the windows up, and returns where.
func (s *spy) keep() *times {
	all := new(times)
	s.decide = func(_ int, w *Window) Decision {
		all.service.Add(w.Service)
		all.sojourn.Add(w.Sojourn)
		return Decision{Limit: s.limit}
	}
	return all
}

// TestFeedLatency: the same load has the same latencies whether it waits in the pool's queue
// or in a task source: 1,500 tasks of 5 ms that come at once, with four workers, take 940 ms
// on average. Their service time is reported separately.
func TestFeedLatency(t *testing.T) {
	const n, workers, took = 1500, 4, 5 * time.Millisecond
	measure := func(fed bool) (all *times) {
		synctest.Test(t, func(t *testing.T) {
			s, o := &readySource{}, newSpy(workers)
			all = o.keep()
			cfg := Config{Optimizer: o, Start: workers}
			if fed {
				cfg.TaskSource = s
			}
			s.pool = open(t, cfg)
			for range n {
				if fed {
					s.add(time.Now(), lasting(took))
				} else {
					submit(t, s.pool, lasting(took))
				}
			}
			<-time.After(3500 * time.Millisecond)
			synctest.Wait()
		})
		return all
	}
	q, f := measure(false), measure(true)
	for _, c := range []struct {
		name        string
		queue, feed *Histogram
		mean        time.Duration
	}{
		{"service", &q.service, &f.service, took},
		{"sojourn", &q.sojourn, &f.sojourn, took * (1 + n/workers) / 2},
	} {
		t.Logf("%s: queue mean %v, p99 %v; feed mean %v, p99 %v", c.name, c.queue.Mean(), c.queue.Quantile(0.99), c.feed.Mean(), c.feed.Quantile(0.99))
		if c.queue.Count() != n || c.queue.Mean() != c.mean {
			t.Errorf("%s of the queue: %d tasks, mean %v, not %v", c.name, c.queue.Count(), c.queue.Mean(), c.mean)
		}
		if c.feed.Count() != n || c.feed.Mean() != c.queue.Mean() || c.feed.Quantile(0.99) != c.queue.Quantile(0.99) {
			t.Errorf("%s behind a feed: %d tasks, mean %v, p99 %v; in the queue %d, %v, %v", c.name,
				c.feed.Count(), c.feed.Mean(), c.feed.Quantile(0.99), c.queue.Count(), c.queue.Mean(), c.queue.Quantile(0.99))
		}
	}
}

// TestFeedReadyTime: a task may have been ready before there was a pool; and one without a ready
// time, or with one in the future, arrives when it is returned.
func TestFeedReadyTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		ready func() time.Time
		want  time.Duration
	}{
		{"before the pool", func() time.Time { return time.Now().Add(-time.Minute) }, 60500 * time.Millisecond},
		{"unknown", func() time.Time { return time.Time{} }, 500 * time.Millisecond},
		{"to come", func() time.Time { return time.Now().Add(time.Hour) }, 500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, o := &readySource{}, newSpy(1)
			all := o.keep()
			s.pool = open(t, Config{Optimizer: o, Start: 1, TaskSource: s})
			s.add(c.ready(), lasting(500*time.Millisecond))
			<-time.After(1500 * time.Millisecond)
			synctest.Wait() // for the race detector, too
			if all.sojourn.Count() != 1 || all.sojourn.Mean() != c.want || all.service.Mean() != 500*time.Millisecond {
				t.Errorf("%s: %d tasks, latency %v, not %v; service %v", c.name, all.sojourn.Count(), all.sojourn.Mean(), c.want, all.service.Mean())
			}
		})
	}
}
