package soak

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// resourceUse is what the nodes use together at a moment without calls: a leader uses more than a
// follower, and leadership moves. Connections to participants, of which each node keeps up to eight
// idle ones to each for five minutes, are counted separately, and subtracted from the descriptors
// and goroutines. disk is that of the node that uses most.
type resourceUse struct {
	goroutines, descriptors, finished int
	heap, disk                        int64 // bytes
	conns                             int   // to participants
	own                               int   // goroutines of the test itself
}

func (q resourceUse) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %.1f MiB of heap, %d outcomes kept, and %d connections to participants; %.1f MiB of disk at one node; %d goroutines of the test",
		q.goroutines, q.descriptors, mib(q.heap), q.finished, q.conns, mib(q.disk), q.own)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// The bounds of growth, for three nodes together. Between two idle moments of a healthy cluster all
// but the disk differ by a few per cent, in either direction.
const (
	// moreGoroutines are those of pools that have grown, and of what a node does each
	// second, which may run at that moment. In three minutes more than 50,000 calls are
	// made: one goroutine that is left behind by a thousandth of them is found.
	moreGoroutines = 30
	// moreDescriptors are streams between nodes, of which a node keeps up to three to each
	// other one, and connections that are being opened or closed.
	moreDescriptors = 18
	// moreHeap is what is kept in bounded memory, whatever the load: the last entries of
	// the log, attempts at branches, buffers. 250 bytes that are left behind by each
	// call of three minutes are found.
	moreHeap = 12 << 20
	// moreOwn are goroutines of the test: connections that are being closed.
	moreOwn = 8
	// mostDisk is what one node may keep (docs/deploy.md): twice [snapshotBytes] of log, and what is
	// written during a snapshot, in files of a quarter of it: one more at either end, and one that is filled in
	// advance; and three snapshots, each of which is smaller than snapshotBytes here.
	mostDisk = 4*snapshotBytes + 3*snapshotBytes/4 + 3*snapshotBytes
)

// exceeds describes what has grown too much since an earlier measurement.
func (q resourceUse) exceeds(before resourceUse) error {
	var errs error
	more := func(what string, now, was, allowed int64) {
		if now > was+allowed {
			errs = errors.Join(errs, fmt.Errorf("%s: %d before the load, and %d after it; %d more may be", what, was, now, allowed))
		}
	}
	more("goroutines", int64(q.goroutines), int64(before.goroutines), moreGoroutines)
	more("descriptors", int64(q.descriptors), int64(before.descriptors), moreDescriptors)
	more("bytes of heap", q.heap, before.heap, moreHeap)
	more("connections to participants", int64(q.conns), 0, size*3*8)
	more("goroutines of the test", int64(q.own), int64(before.own), moreOwn)
	more("outcomes kept", int64(q.finished), 0, 0)
	more("bytes on the disk of a node", q.disk, mostDisk, 0)
	return errs
}

// measure waits for an idle moment that meets a condition, and returns the last one if none does.
func (b *testEnv) measure(within time.Duration, good func(resourceUse) error) (q resourceUse, err error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), within)
	defer cancel()
	err = rig.Retry(ctx, func() error {
		var err error
		if q, err = b.readResources(b.t.Context()); err == nil {
			err = good(q)
		}
		return err
	})
	return q, err
}

func (b *testEnv) readResources(ctx context.Context) (q resourceUse, err error) {
	for _, n := range b.nodes {
		m, err := b.collected(ctx, n)
		if err != nil {
			return q, fmt.Errorf("%s: %w", n.Name, err)
		}
		q.goroutines += int(m["go_goroutines"])
		segments, err := os.ReadDir(filepath.Join(n.data, "log.db.segments"))
		if err != nil {
			return q, err
		}
		q.descriptors += int(m["process_open_fds"]) - len(segments) // each is open; disk bounds them
		q.finished = max(q.finished, int(m["txmgr_outcomes_retained"]))
		q.heap += int64(m["go_memstats_heap_alloc_bytes"])
		used, err := diskUse(n.data)
		if err != nil {
			return q, err
		}
		q.disk = max(q.disk, used)
	}
	pg, maria, web, err := b.money.openConnections(ctx)
	q.conns = pg + maria + web
	q.descriptors -= q.conns
	q.goroutines -= maria + 2*web // the goroutines of the driver, and of net/http, for each connection
	q.own = runtime.NumGoroutine()
	return q, err
}

// collected returns the metrics of a node with the smallest heap that is seen until its garbage was
// collected twice. Lists trigger collections: an idle program collects only every two minutes.
func (b *testEnv) collected(ctx context.Context, n *node) (least map[string]float64, err error) {
	m, err := b.metrics(ctx, n)
	if err != nil {
		return nil, err
	}
	least = m
	for first := m["go_gc_duration_seconds_count"]; m["go_gc_duration_seconds_count"] < first+2; {
		for range 20 {
			if _, err := n.m.List(txn.AllowStale(ctx), admin.Filter{}); err != nil {
				return nil, err
			}
		}
		if m, err = b.metrics(ctx, n); err != nil {
			return nil, err
		}
		if m["go_memstats_heap_alloc_bytes"] < least["go_memstats_heap_alloc_bytes"] {
			least = m
		}
	}
	return least, nil
}

// metrics returns those of a node that have no labels.
func (b *testEnv) metrics(ctx context.Context, n *node) (map[string]float64, error) {
	text, err := b.get(ctx, n.url+"/metrics")
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			all[name] = v
		}
	}
	return all, lines.Err()
}

// get fetches a page of a node.
func (b *testEnv) get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := b.web.Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	err = errors.Join(err, answer.Body.Close())
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return text, err
}

// bearer adds a token to requests.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

func diskUse(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil // a segment or a snapshot that was just removed
			}
			return err
		}
		if info, err := d.Info(); err == nil && !d.IsDir() {
			sum += info.Size()
		}
		return nil
	})
	return sum, err
}
