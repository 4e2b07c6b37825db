package server_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
)

// BenchmarkJSON measures what curl and other languages get: one begin or one get per
// operation, as JSON over HTTP/1.1, server and clients in one process.
func BenchmarkJSON(b *testing.B) {
	for _, callers := range []int{1, 64} {
		for _, method := range []string{"Begin", "Get"} {
			b.Run(fmt.Sprintf("%s/callers=%d", method, callers), func(b *testing.B) { benchmarkJSON(b, method, callers) })
		}
	}
}

func benchmarkJSON(b *testing.B, method string, callers int) {
	s, err := server.New(server.Config{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}, servertest.New())
	if err != nil {
		b.Fatal(err)
	}
	ln, err := s.Listen()
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(b.Context(), ln) }()
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	defer func() {
		transport.CloseIdleConnections()
		if err := s.Shutdown(b.Context()); err != nil {
			b.Error(err)
		}
		<-ended
	}()
	c := &http.Client{Transport: transport}
	call := func(method string) {
		res, err := c.Post("http://"+ln.Addr().String()+"/txmgr.v1.TransactionService/"+method, "application/json", strings.NewReader(begin(id1)))
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			b.Errorf("%s: %d", method, res.StatusCode)
		}
	}
	call("Begin")
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	started, burnt := time.Now(), cpu()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				call(method)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(started).Seconds(), "calls/s")
	b.ReportMetric(float64((cpu()-burnt).Microseconds())/float64(b.N), "cpu-us/call")
}

// cpu is the processor time of this process so far: unlike the wall clock, it
// can be compared when the machine has other work.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
