package adaptive_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// A handler that runs in a pool which adapts its size: three lines where the server
// is set up, and three for each request.
func Example_httpHandler() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })

	pool, err := adaptive.New(adaptive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := pool.Do(r.Context(), func() error { hello(w, r); return nil }); err != nil {
			http.Error(w, "come back later", http.StatusServiceUnavailable)
		}
	})

	server := httptest.NewServer(handler)
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Print(resp.Status, ": ", string(body))
	if err := pool.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: 200 OK: hello
}

func ExamplePool() {
	pool, err := adaptive.New(adaptive.Config{
		Optimizer: adaptive.Fixed(2),
		OnError:   func(err error) { fmt.Println("no submitter waited for:", err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	var ran atomic.Int32
	for range 100 {
		err := pool.Submit(context.Background(), func() error { ran.Add(1); return nil })
		if err != nil {
			log.Fatal(err)
		}
	}
	err = pool.Do(context.Background(), func() error { panic("lost my keys") })
	fmt.Println(err)
	err = pool.Submit(context.Background(), func() error { return fmt.Errorf("disk full") })
	if err != nil {
		log.Fatal(err)
	}
	if err := pool.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(ran.Load(), "ran;", pool.Stats().Completed, "completed")
	fmt.Println(pool.TrySubmit(func() error { return nil }))
	// Output:
	// adaptive: the task panicked: lost my keys
	// no submitter waited for: disk full
	// 100 ran; 102 completed
	// adaptive: the pool is closed
}

// service is a service that serves eight requests at once: the window of a pool with that
// limit, when more users ask than it serves.
func service(limit int, length time.Duration) *adaptive.Window {
	const perTask, capacity, clients = 10 * time.Millisecond, 8, 100
	completed := uint32(length / perTask * time.Duration(min(limit, capacity)))
	w := &adaptive.Window{
		End: length, Limit: limit, Arrived: uint64(completed), Completed: uint64(completed),
		BusyTime: time.Duration(limit) * length, BusyMax: limit, QueueLen: clients - limit,
		BoundTime: length, BoundCompleted: uint64(completed),
		Service: new(adaptive.Histogram), Sojourn: new(adaptive.Histogram),
	}
	w.Service.RecordN(perTask*time.Duration(max(limit, capacity))/capacity, completed)
	w.Sojourn.RecordN(length*clients/time.Duration(completed), completed)
	return w
}

// follow shows windows to an optimizer and prints its decisions.
func follow(o adaptive.Optimizer, limit, windows int) {
	for n := range windows {
		d := o.Observe(service(limit, o.Period()))
		if d.Why != "" {
			fmt.Printf("%v: %d -> %d, %s\n", time.Duration(n+1)*o.Period(), limit, d.Limit, d.Why)
		}
		limit = d.Limit
	}
}

func ExampleNewKnee() {
	knee, err := adaptive.NewKnee(adaptive.Knee{Max: 64})
	if err != nil {
		log.Fatal(err)
	}
	follow(knee, 2, 80)
	// Output:
	// 1s: 2 -> 6, trying 6 after 2: tasks wait
	// 2.5s: 6 -> 12, instead of 2: 6 completes +200.0%, wanted was +17.9%; trying 12 after 6: tasks wait
	// 4s: 12 -> 6, back to 6, of which too little is known to judge 12
	// 5s: 6 -> 12, trying 12 after 6: tasks wait
	// 7s: 12 -> 24, instead of 6: 12 completes +33.3%, wanted was +11.0%; trying 24 after 12: tasks wait
	// 9s: 24 -> 14, back to 12: 24 completes +0.0%, wanted was +11.0%; trying 14 after 12: tasks wait
	// 19.5s: 14 -> 9, back to 12: 14 completes +0.0%, wanted was +2.3%; trying 9 after 12: a smaller one might do as much
	// 30s: 9 -> 8, instead of 12: 9 completes +0.0%, wanted was -2.0%; trying 8 after 9: a smaller one might do as much
}

// backlog is work that waits elsewhere.
type backlog struct {
	pool *adaptive.Pool
	all  sync.WaitGroup
	mu   sync.Mutex // guards work
	work []order
}

// order is a piece of work, and since when it is ready.
type order struct {
	id    int
	since time.Time
}

func (b *backlog) add(ids ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all.Add(len(ids))
	for _, id := range ids {
		b.work = append(b.work, order{id, time.Now()})
	}
	b.pool.SetReady(len(b.work), 0)
}

// Next returns the oldest.
func (b *backlog) Next(int) (adaptive.Task, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.work) == 0 {
		return nil, time.Time{}
	}
	next := b.work[0]
	b.work = b.work[1:]
	b.pool.SetReady(len(b.work), 0)
	return func() error {
		fmt.Println("finished", next.id)
		b.all.Done()
		return nil
	}, next.since
}

// A pool takes its work from where it is stored: nothing is copied into a queue before a
// worker is free.
func ExampleTaskSource() {
	b := &backlog{}
	pool, err := adaptive.New(adaptive.Config{Optimizer: adaptive.Fixed(1), TaskSource: b})
	if err != nil {
		log.Fatal(err)
	}
	b.pool = pool
	b.add(3, 1, 2)
	b.all.Wait()
	if err := pool.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// finished 3
	// finished 1
	// finished 2
}
