package server

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// statusCollector turns the coordinator's status into metrics at each scrape.
type statusCollector struct {
	c     Coordinator
	certs *certs.Store // of the server; nil without TLS
}

var (
	descTransactions = desc("transactions_total", "Decisions since bootstrap, by outcome and cause.", "outcome", "cause")
	descParticipant  = desc("participant_up", "Whether the participant takes part, as this node sees it.", "participant", "kind")
	descQueued       = desc("participant_queued", "Branches that wait for a worker, by participant.", "participant", "kind")
	descLimit        = desc("participant_limit", "Calls that the participant gets at once from recovery.", "participant", "kind")
	descRunning      = desc("participant_running", "Calls of recovery that are under way, by participant.", "participant", "kind")
	descLimitChanges = desc("participant_limit_decisions_total", "Decisions since this node leads to allow the participant more calls at once (up), or fewer (down).", "participant", "kind", "direction")
	descBuild        = desc("build_info", "Always 1; the version is in the label.", "version")
	descMembers      = desc("members", "Nodes of the cluster, by whether they take part in decisions.", "kind")
	descTokens       = desc("tokens", "Tokens that were made and not revoked.")
	descCertificate  = desc("certificate_expires_timestamp_seconds", "When the certificate that the server shows ends, in seconds since 1970; never without TLS.")
	descEntries      = desc("log_entry_duration_seconds", "How long entries of the log took, from proposing them to applying them, on the node that led.")
	descCalls        = desc("participant_call_duration_seconds", "How long recovery's calls to end branches took, however they ended.", "participant")
	descTimeoutLag   = desc("timeout_lag_seconds", "The time from the expiry tick of timeouts until they were applied, on the clock of the leader.")
)

// statusMetrics are the metrics without labels.
var statusMetrics = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(admin.Status) float64
}{
	{desc("transactions_undecided", "Undecided transactions, the delegated ones included."), prometheus.GaugeValue, func(s admin.Status) float64 { return float64(s.Undecided) }},
	{desc("transactions_delegated", "Undecided transactions whose decision is left to their only branch."), prometheus.GaugeValue, func(s admin.Status) float64 { return float64(s.Delegated) }},
	{desc("transactions_completing", "Decided transactions whose phase two is not complete."), prometheus.GaugeValue, func(s admin.Status) float64 { return float64(s.Completing) }},
	{desc("outcomes_retained", "Finished transactions whose outcome is retained."), prometheus.GaugeValue, func(s admin.Status) float64 { return float64(s.Finished) }},
	{desc("heuristic_outcomes", "Heuristic outcomes that are not forgotten."), prometheus.GaugeValue, func(s admin.Status) float64 { return float64(s.Heuristics) }},
	{desc("commands_total", "Commands applied since this process started."), prometheus.CounterValue, func(s admin.Status) float64 { return float64(s.Commands) }},
	{desc("log_entries_total", "Log entries applied since this process started."), prometheus.CounterValue, func(s admin.Status) float64 { return float64(s.Entries) }},
	{desc("log_tick_entries_total", "Log entries that only carry a tick."), prometheus.CounterValue, func(s admin.Status) float64 { return float64(s.TickEntries) }},
	{desc("log_fsyncs_total", "fdatasync calls of the log since this process started."), prometheus.CounterValue, func(s admin.Status) float64 { return float64(s.Syncs) }},
	{desc("log_bytes", "Size of the log on disk."), prometheus.GaugeValue, func(s admin.Status) float64 { return float64(s.LogBytes) }},
	{desc("log_index", "Last applied entry of the log."), prometheus.GaugeValue, func(s admin.Status) float64 { return float64(s.LogIndex) }},
	{desc("term", "Raft term."), prometheus.GaugeValue, func(s admin.Status) float64 { return float64(s.Term) }},
	{desc("tick", "Invocations of the timeout thread so far."), prometheus.CounterValue, func(s admin.Status) float64 { return float64(s.Tick) }},
	{desc("incarnation", "The number of restores from a backup."), prometheus.GaugeValue, func(s admin.Status) float64 { return float64(s.Incarnation) }},
	{desc("recovery_paused", "1 while recovery is paused after a restore."), prometheus.GaugeValue, func(s admin.Status) float64 { return boolToFloat(s.RecoveryPaused) }},
	{desc("sessions", "Open client sessions."), prometheus.GaugeValue, func(s admin.Status) float64 { return float64(s.Sessions) }},
	{desc("sessions_expired_total", "Client sessions that expired, since bootstrap."), prometheus.CounterValue, func(s admin.Status) float64 { return float64(s.SessionsExpired) }},
	{desc("leader", "1 on the leader."), prometheus.GaugeValue, func(s admin.Status) float64 { return boolToFloat(s.Leader) }},
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("txmgr_"+name, help, labels, nil)
}

// Describe implements [prometheus.Collector].
func (c *statusCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, p := range statusMetrics {
		ch <- p.desc
	}
	for _, d := range []*prometheus.Desc{descTransactions, descParticipant, descQueued, descLimit, descRunning, descLimitChanges, descBuild, descMembers, descTokens, descCertificate, descTimeoutLag, descEntries, descCalls} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector]. A node that cannot report its status gives an
// error for these metrics; all others are still reported.
func (c *statusCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(txn.AllowStale(context.Background()), 5*time.Second)
	defer cancel()
	c.durations(ch)
	ends := math.Inf(1)
	if own := c.certs; own != nil {
		ends = float64(own.Expires().Unix())
	}
	ch <- prometheus.MustNewConstMetric(descCertificate, prometheus.GaugeValue, ends)
	if tokens, err := c.c.Admin().Tokens(ctx); err == nil { // a node without a log has none
		ch <- prometheus.MustNewConstMetric(descTokens, prometheus.GaugeValue, float64(len(tokens)))
	}
	s, err := c.c.Admin().Status(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descBuild, err)
		return
	}
	for _, p := range statusMetrics {
		ch <- prometheus.MustNewConstMetric(p.desc, p.kind, p.value(s))
	}
	c.members(ch, s.Members)
	total := func(v uint64, outcome, cause string) {
		ch <- prometheus.MustNewConstMetric(descTransactions, prometheus.CounterValue, float64(v), outcome, cause)
	}
	total(s.Committed, "committed", "")
	unknown := s.RolledBack // decided before causes were counted
	for _, cause := range txn.Causes() {
		n := s.RolledBackBy[cause]
		total(n, "rolled-back", cause.String())
		unknown -= min(n, unknown)
	}
	if unknown > 0 {
		total(unknown, "rolled-back", "unknown")
	}
	ch <- prometheus.MustNewConstMetric(descBuild, prometheus.GaugeValue, 1, s.Version)
	for _, p := range s.Participants {
		ch <- prometheus.MustNewConstMetric(descParticipant, prometheus.GaugeValue, boolToFloat(p.Healthy), p.Name, p.Kind)
		ch <- prometheus.MustNewConstMetric(descQueued, prometheus.GaugeValue, float64(p.Queued), p.Name, p.Kind)
		c.limit(ch, p)
	}
}

// limit reports the concurrency limit of a participant, and how often it was changed.
func (c *statusCollector) limit(ch chan<- prometheus.Metric, p admin.ParticipantStatus) {
	ch <- prometheus.MustNewConstMetric(descLimit, prometheus.GaugeValue, float64(p.Limit), p.Name, p.Kind)
	ch <- prometheus.MustNewConstMetric(descRunning, prometheus.GaugeValue, float64(p.Running), p.Name, p.Kind)
	ch <- prometheus.MustNewConstMetric(descLimitChanges, prometheus.CounterValue, float64(p.Raised), p.Name, p.Kind, "up")
	ch <- prometheus.MustNewConstMetric(descLimitChanges, prometheus.CounterValue, float64(p.Lowered), p.Name, p.Kind, "down")
}

// members reports the number of nodes, by role.
func (c *statusCollector) members(ch chan<- prometheus.Metric, members []admin.Member) {
	voters := 0
	for _, m := range members {
		if m.Voter {
			voters++
		}
	}
	ch <- prometheus.MustNewConstMetric(descMembers, prometheus.GaugeValue, float64(voters), "voter")
	ch <- prometheus.MustNewConstMetric(descMembers, prometheus.GaugeValue, float64(len(members)-voters), "learner")
}

// DurationMetrics is a [Coordinator] that measures durations.
type DurationMetrics interface {
	Durations() admin.DurationHistograms
}

// durations reports the histograms of [DurationMetrics], if the coordinator has them.
func (c *statusCollector) durations(ch chan<- prometheus.Metric) {
	m, ok := c.c.(DurationMetrics)
	if !ok {
		return
	}
	emit := func(desc *prometheus.Desc, r admin.DurationHistogram, labels ...string) {
		ch <- prometheus.MustNewConstHistogram(desc, r.Count, r.Sum, r.Buckets, labels...)
	}
	d := m.Durations()
	emit(descTimeoutLag, d.TimeoutLag)
	emit(descEntries, d.Entries)
	for name, r := range d.Calls {
		emit(descCalls, r, name)
	}
}

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
