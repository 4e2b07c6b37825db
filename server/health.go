package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// live answers that the process runs. A failure is a reason to restart it.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	report(w, "livez", healthCheck{name: "ping"})
}

// ready says whether calls should be sent to this node. An unready node is no reason to
// restart it: without a quorum no node is ready.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	var load error
	if n := s.running.writes.requests.Load(); n >= int64(s.cfg.MaxRequests) {
		load = fmt.Errorf("%d calls are running, which is the limit", n)
	}
	err, forwardNote := s.c.Ready(), ""
	if err == nil { // else the lock that Leader needs may be held
		if api, here := s.c.Leader(); !here && api != "" {
			forwardNote = ": calls are passed on to " + api
		}
	}
	report(w, "readyz",
		healthCheck{"leader", err, forwardNote},
		healthCheck{"load", load, ""},
		healthCheck{"shutdown", context.Cause(s.draining.ctx), ""},
	)
}

type healthCheck struct {
	name string
	err  error
	note string // shown to the operator when there is no error
}

// report writes one line per check, in the form of Kubernetes' health pages.
func report(w http.ResponseWriter, page string, checks ...healthCheck) {
	var b strings.Builder
	status, result := http.StatusOK, "passed"
	for _, c := range checks {
		if c.err == nil {
			fmt.Fprintf(&b, "[+]%s ok%s\n", c.name, c.note)
			continue
		}
		status, result = http.StatusServiceUnavailable, "failed"
		fmt.Fprintf(&b, "[-]%s failed: %s\n", c.name, strings.ReplaceAll(c.err.Error(), "\n", "; "))
	}
	fmt.Fprintf(&b, "%s check %s\n", page, result)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(b.String())) // the client is gone
}
