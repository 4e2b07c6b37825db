package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// live says that the process answers. A failure is a reason to restart it.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	report(w, "livez", check{name: "ping"})
}

// ready says whether calls should be sent here. Not being ready is no reason to
// restart: without a quorum no node is.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	var load error
	if n := s.deciding.requests.Load(); n >= int64(s.cfg.MaxRequests) {
		load = fmt.Errorf("%d calls are running, which is the limit", n)
	}
	err, elsewhere := s.c.Ready(), ""
	if err == nil { // else the state may be locked, in which the leader is looked up
		if api, here := s.c.Leader(); !here && api != "" {
			elsewhere = ": calls are passed on to " + api
		}
	}
	report(w, "readyz",
		check{"leader", err, elsewhere},
		check{"load", load, ""},
		check{"shutdown", context.Cause(s.draining), ""},
	)
}

type check struct {
	name string
	err  error
	note string // when there is no error; for people
}

// report answers a line per check, as Kubernetes' own health pages do.
func report(w http.ResponseWriter, page string, checks ...check) {
	var b strings.Builder
	status, verdict := http.StatusOK, "passed"
	for _, c := range checks {
		if c.err == nil {
			fmt.Fprintf(&b, "[+]%s ok%s\n", c.name, c.note)
			continue
		}
		status, verdict = http.StatusServiceUnavailable, "failed"
		fmt.Fprintf(&b, "[-]%s failed: %s\n", c.name, strings.ReplaceAll(c.err.Error(), "\n", "; "))
	}
	fmt.Fprintf(&b, "%s check %s\n", page, verdict)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(b.String())) // the caller is gone
}
