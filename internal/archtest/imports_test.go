package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// importRule lists the packages of this module that the packages of one directory may import. A
// pattern that ends in "/..." means everything below it, and itself.
type importRule struct {
	from string
	to   []string
	why  string
}

// importRules is docs/architecture.md as a table; the first row whose pattern matches a package
// applies to it. Tests may import anything, subject to the rule about libraries.
var importRules = []importRule{
	{"txn/internal/workdeadline", nil, "the deadline of the work in a transaction"},
	{"txn", []string{"txn/internal/workdeadline"}, "shared types, and what applications call"},
	{"txn/admin", []string{"txn"}, "what operators read and order; applications do without it"},
	{"txn/async", []string{"txn"}, "calls without a goroutine each: node makes them, and server answers by them"},
	{"txn/machine", []string{"txn", "txn/admin", "txn/machine/internal/...", "timeout/survival", "timeout/hashbelt"}, "the replicated state machine: the shared types, and the structures that are part of its state"},
	{"txn/machine/internal/slab", nil, "it holds items and strings, and does not know what they are"},
	{"txn/txntest", []string{"txn", "txn/admin", "txn/machine", "timeout/...", "internal/random", "internal/textutil"}, "an in-memory manager for tests of applications: the state machine without a log"},
	{"txn/retry", []string{"txn"}, "it does the work of a transaction again, and knows which errors of the drivers pass"},
	{"txn/txnhttp", []string{"txn"}, "it carries a transaction from service to service, with any `txn.Manager`"},

	{"timeout/wheel/runner", []string{"timeout", "timeout/wheel"}, "it adds to the wheel the goroutine and the clock that the wheel itself does not have"},
	{"timeout/wheel", []string{"timeout", "timeout/heap"}, "the heap is the delay queue of the wheel's buckets"},
	{"timeout/purgatory", []string{"timeout", "timeout/wheel", "timeout/wheel/runner"}, "its deadlines are tasks of a running wheel"},
	{"timeout/timeouttest", []string{"timeout/..."}, "one test suite for all timeout structures"},
	{"timeout/...", []string{"timeout"}, "each structure is independent, so that it can be used alone and compared"},
	{"adaptive/...", []string{"adaptive"}, "any Go server can use the pool"},

	{"participant", []string{"txn", "txn/admin"}, "the contract of a participant, in the types of `txn`"},
	{"participant/internal/calls", nil, "it ends the calls to a participant that is closed, and names it in errors"},
	{"participant/internal/dbsettings", []string{"participant", "participant/internal/excerpt", "txn", "txn/admin"}, "the settings that databases with marker rows have in common"},
	{"participant/internal/excerpt", []string{"internal/textutil"}, "it shortens texts for error messages"},
	{"participant/internal/prune/...", []string{"participant", "txn"}, "which marker rows are not needed any more; the statements are the drivers'"},
	{"participant/mariadb/...", []string{"participant", "participant/internal/...", "participant/mariadb/internal/...", "txn", "txn/admin"}, "one driver and its parts: it depends neither on other drivers nor on recovery"},
	{"participant/postgres/...", []string{"participant", "participant/internal/...", "participant/postgres/internal/...", "txn", "txn/admin"}, "one driver and its parts: it depends neither on other drivers nor on recovery"},
	{"participant/...", []string{"participant", "txn", "txn/admin", "internal/textutil"}, "one driver each: it depends neither on other drivers nor on recovery"},
	{"recovery/breaker", nil, "pure: the time and the randomness are arguments"},
	{"recovery/queue", []string{"txn"}, "queues of ids, guarded by their owner's lock"},
	{"recovery/plan", []string{"participant", "txn"}, "pure: what the log has, and what follows from it"},
	{"recovery/history", []string{"recovery/plan", "recovery/queue", "txn", "txn/admin"}, "what was tried, within limits"},
	{"recovery/call", []string{"recovery/plan", "participant", "txn", "internal/redact"}, "one call to a participant, and what its answer means"},
	{"recovery/scan", []string{"recovery/call", "recovery/plan", "participant", "txn", "txn/admin", "internal/redact"}, "it compares what is prepared at a participant with the log, and ends nothing"},
	{"recovery", []string{"adaptive", "adaptive/costa", "participant", "timeout", "timeout/wheel", "timeout/heap", "timeout/hashbelt", "txn", "txn/admin", "internal/failpoint", "recovery/...", "internal/redact"}, "it drives branches to the decision, and does not decide"},
	{"raftfsm/wal", nil, "it stores frames as bytes and knows no entry"},
	{"raftfsm/logstore", []string{"raftfsm/wal", "internal/failpoint"}, "it stores log entries as bytes and does not decode commands"},
	{"raftfsm", []string{"raftfsm/logstore", "txn/machine", "timeout/survival", "txn", "txn/admin", "internal/failpoint", "internal/textutil"}, "it decodes an entry's tick and commands for the state machine, which decides"},
	{"node/peer", []string{"txn", "internal/certs", "internal/logsample", "internal/hclogslog", "internal/textutil"}, "the port between nodes: raft's streams and a few requests; it does not interpret their contents"},
	{"node/storage", []string{"raftfsm/logstore", "internal/simenv"}, "it opens and checks the data directory, and knows no entry"},
	{"node/notify", []string{"timeout/purgatory", "txn", "txn/machine"}, "it tells of changes, and does not know what a caller waits for"},
	{"node/commitwait", []string{"timeout/purgatory", "txn"}, "it waits for decisions, and makes none"},
	{"node/sessions", []string{"timeout/hashbelt", "txn", "txn/machine"}, "it expires sessions, and does not know what is in them"},
	{"node/snapshots", nil, "it takes snapshots and truncates the log, and knows no entry"},
	{"node/tokensecret", []string{"internal/random"}, "it is pure"},
	{"node/query", []string{"node/ticks", "recovery", "timeout/survival", "txn", "txn/admin", "txn/machine"}, "it reads the applied state for callers, who decide whether it may be read"},
	{"node/recoverylog", []string{"node/participants", "node/ticks", "participant", "recovery", "timeout/survival", "txn", "txn/machine", "internal/failpoint", "internal/textutil"}, "it tells recovery what is pending, and writes what recovery has found"},
	{"node/backup", []string{"node/storage", "raftfsm", "txn", "txn/admin", "txn/machine"}, "it writes, checks and restores the file of a backup, and knows no node"},
	{"node/participants", []string{"participant", "recovery", "txn", "txn/admin", "txn/machine"}, "opened participants and what their settings permit; it proposes nothing"},
	{"node/readindex", []string{"txn"}, "it confirms that a node leads; it reads nothing itself"},
	{"node/raftguard", []string{"node/readindex", "node/storage", "raftfsm/logstore", "txn", "internal/hclogslog", "internal/logsample", "internal/simenv"}, "it starts raft and works around its defects; it knows no entry"},
	{"node/ticks", []string{"raftfsm", "timeout/survival", "txn/machine"}, "it counts ticks and asks for entries; it writes none"},
	{"node/proposal", []string{"node/ticks", "raftfsm", "txn", "txn/admin", "txn/machine", "internal/failpoint", "internal/latency"}, "it writes entries, and does not know what a command means"},
	{"node/audit", []string{"txn", "txn/admin", "txn/machine", "internal/textutil"}, "it selects records, and checks what operators write into them"},
	{"node/guardedcall", nil, "it guards one call to a participant against a hang and a panic"},
	{"node/health", []string{"node/guardedcall", "participant", "raftfsm/logstore", "timeout/survival", "txn/admin"}, "it checks what the node tells of itself, the host, and the participants"},
	{"node/indoubt", []string{"node/audit", "node/guardedcall", "node/ticks", "participant", "recovery", "timeout/survival", "txn", "txn/admin", "txn/machine", "internal/textutil"}, "it explains transactions in doubt and carries out what operators decide; it decides nothing"},
	{"node/membership", []string{"node/peer", "node/proposal", "node/storage", "raftfsm/logstore", "txn", "txn/admin", "txn/machine"}, "it decides who is in the cluster, and does not know what a transaction is"},
	{"node", []string{"node/...", "raftfsm/...", "recovery", "timeout/...", "adaptive", "participant", "txn/machine", "txn", "txn/admin", "txn/async", "internal/failpoint", "internal/buildversion", "internal/certs", "internal/latency", "internal/asynclog", "internal/logsample", "internal/hclogslog", "internal/random", "internal/textutil", "internal/simenv"}, "it assembles one coordinator, and depends on the contract of participants only"},

	{"api/wire", []string{"api/txmgr/...", "txn", "txn/admin", "internal/textutil"}, "it converts between the types of `txn` and the messages, for client and server"},
	{"api/...", []string{"api/..."}, "the generated messages and services"},
	{"server/limits", []string{"api/wire", "txn", "txn/admin"}, "limits that count by themselves"},
	{"server/auth", []string{"server/limits", "api/wire", "txn", "txn/admin", "internal/logsample"}, "it turns a request into a principal, and knows nothing of the call"},
	{"server/pipeline", []string{"server/limits", "api/...", "txn"}, "it runs commands and sends replies; the server carries the commands out"},
	{"server/forward", []string{"server/pipeline", "api/wire", "txn", "txn/admin", "internal/certs"}, "it sends calls to the leader; the server admits, answers and observes them"},
	{"server/...", []string{"server/...", "node", "api/...", "participant", "txn", "txn/admin", "txn/async", "internal/certs", "internal/asynclog", "internal/logsample"}, "it serves a node's API; it has no access to the state machine or the log"},
	{"client/...", []string{"client/...", "api/...", "txn", "txn/admin", "internal/random"}, "applications link it, so it contains nothing of the server"},
	{"cmd/...", []string{"cmd/...", "server/...", "client/...", "node", "node/backup", "node/participants", "participant/...", "txn", "txn/admin", "internal/..."}, "the command line sends requests and prints the answers; only it names the kinds of participants"},

	{"examples/...", []string{"client", "node", "participant/...", "txn", "txn/admin"}, "examples use only what an application can use"},

	{"internal/certs", []string{"txn"}, "it makes, loads and reloads certificates and checks what they permit; both ports use it"},
	{"internal/latency", []string{"txn/admin", "txn"}, "it records durations for metrics"},
	{"internal/redact", nil, "it removes secrets from texts of participants"},
	{"internal/asynclog", nil, "a logger that never blocks its callers"},
	{"internal/logsample", nil, "it limits repeated log lines"},
	{"internal/hclogslog", nil, "it passes raft's log to slog"},
	{"internal/random", []string{"txn"}, "it makes ids and secrets, outside the core"},
	{"internal/svgchart", nil, "it draws panels of lines"},
	{"internal/textutil", nil, "it shortens texts and joins their lines"},
	{"internal/waittest", nil, "it waits in tests"},
	{"internal/simenv", nil, "it replaces disk, network and wall clock of a node in the simulation"},
	{"internal/failpoint", nil, "steps at which crash tests end the process; empty in every other build"},
	{"internal/adaptivebench", []string{"adaptive", "adaptive/costa", "internal/svgchart", "internal/testdb"}, "experiments with the adaptive pool on a real database"},
	{"internal/adaptivesim", []string{"adaptive", "adaptive/costa"}, "a simulated pool; the command line runs studies on it"},
	{"internal/adaptivestudy", []string{"adaptive", "internal/adaptivebench", "internal/adaptivesim"}, "studies of the optimizers' parameters, on both of these"},
	{"internal/...", []string{"..."}, "tools and environments for tests"},
}

func (a importRule) allows(dir string) bool {
	return slices.ContainsFunc(a.to, func(pattern string) bool { return matchesPattern(pattern, dir) })
}

func matchesPattern(pattern, dir string) bool {
	below, all := strings.CutSuffix(pattern, "...")
	return pattern == dir || all && (below == "" || strings.HasPrefix(dir+"/", below))
}

func importRuleFor(dir string) (importRule, bool) {
	i := slices.IndexFunc(importRules, func(a importRule) bool { return matchesPattern(a.from, dir) })
	if i < 0 {
		return importRule{}, false
	}
	return importRules[i], true
}

func checkImports(t *sourcetree.Tree) []string {
	var findings []string
	for _, p := range t.Packages {
		a, ok := importRuleFor(p.Dir)
		if !ok {
			findings = append(findings, p.Dir+": no row of importRules matches: add one with its reason, then run make generate")
			continue
		}
		for _, f := range code(p) {
			for _, spec := range f.AST.Imports {
				dir, own := t.LocalDir(strings.Trim(spec.Path.Value, `"`))
				if !own || dir == p.Dir || a.allows(dir) {
					continue
				}
				findings = append(findings, fmt.Sprintf("%s: %s must not import %s: %s", t.Pos(spec), p.Dir, dir, a.why))
			}
			if base := path.Base(p.Dir); strings.HasSuffix(base, "test") {
				continue
			}
			for _, spec := range f.AST.Imports {
				if dir, own := t.LocalDir(strings.Trim(spec.Path.Value, `"`)); own && strings.HasSuffix(path.Base(dir), "test") {
					findings = append(findings, fmt.Sprintf("%s: %s is for tests", t.Pos(spec), dir))
				}
			}
		}
	}
	return findings
}
