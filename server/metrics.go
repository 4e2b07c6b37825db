package server

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/txn"
)

// metrics are kept in a registry of the server's own, so that they do not collide with those
// of an embedding program.
type metrics struct {
	registry *prometheus.Registry
	rpc      *prometheus.HistogramVec
	log      *slog.Logger
}

// newMetrics makes the metrics of a server; own are its certificates, nil without TLS.
func newMetrics(s *Server, own *certs.Store) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), log: s.log}
	m.rpc = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "txmgr_rpc_duration_seconds",
		Help:    "How long calls took, commands of a Pipeline included, by method and code.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
	}, []string{"method", "code"})
	m.registry.MustRegister(m.rpc, s.auth.Metrics(), s.forwarder.Metrics(), &statusCollector{s.c, own},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("txmgr_rpc_requests_running", "Calls that run now, not counting streams.", func() float64 { return float64(s.running.all() - s.running.streams()) }),
		gauge("txmgr_rpc_streams_running", "Pipelines, watches and waits that run now.", func() float64 { return float64(s.running.streams()) }),
		gauge("txmgr_connections", "Connections that are open.", func() float64 { return float64(s.connections.Open()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "txmgr_connections_rejected_total", Help: "Connections that were rejected because there were too many.",
		}, func() float64 { return float64(s.connections.Rejected()) }),
		gauge("txmgr_rpc_commands_running", "Commands of pipelines that run now.", func() float64 { return float64(s.pipelines.Commands()) }),
	)
	return m
}

func gauge(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(m.log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	})
}

// timer is the histogram of one method. The one for success is looked up in advance, for the
// hot path.
type timer struct {
	ok    prometheus.Observer
	codes prometheus.ObserverVec
}

func (m *metrics) timer(method string) *timer {
	vec := m.rpc.MustCurryWith(prometheus.Labels{"method": method})
	return &timer{ok: vec.WithLabelValues(string(txn.CodeOK)), codes: vec}
}

func (t *timer) observe(code txn.Code, took time.Duration) {
	if code == txn.CodeOK {
		t.ok.Observe(took.Seconds())
		return
	}
	t.codes.WithLabelValues(string(code)).Observe(took.Seconds())
}
