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
	{"txn", nil, "it is the vocabulary: everybody speaks it, so it knows nobody"},
	{"txn/machine", []string{"txn", "timeout/survival", "timeout/hashbelt"}, "the state that the log drives: words, and the structures that are replicated with it"},
	{"txn/txntest", []string{"txn", "txn/machine", "timeout/..."}, "a manager in memory for tests of users: the machine without a log"},
	{"txn/txnhttp", []string{"txn"}, "it carries a transaction from service to service, by whatever manager they use"},

	{"timeout/wheel/runner", []string{"timeout", "timeout/wheel"}, "the goroutine and the clock that the wheel does without"},
	{"timeout/wheel", []string{"timeout", "timeout/heap"}, "the heap is the delay queue of the wheel's buckets"},
	{"timeout/purgatory", []string{"timeout", "timeout/wheel", "timeout/wheel/runner"}, "its deadlines are tasks of a wheel that is run"},
	{"timeout/timeouttest", []string{"timeout/..."}, "one suite for all the structures"},
	{"timeout/...", []string{"timeout"}, "each structure stands alone, so that it can be taken out and compared"},
	{"adaptive/...", []string{"adaptive"}, "any Go server can use the pool"},

	{"participant", []string{"txn"}, "the contract of a resource, in the words of txn"},
	{"participant/...", []string{"participant", "txn"}, "one resource each: they do not know each other, nor who drives them"},
	{"recovery", []string{"adaptive", "participant", "timeout", "timeout/wheel", "timeout/heap", "timeout/hashbelt", "txn", "internal/failpoint"}, "it drives branches to a decision that it did not make"},

	{"raftfsm/logstore", []string{"internal/failpoint"}, "a log of bytes: it does not know what they say"},
	{"raftfsm", []string{"raftfsm/logstore", "txn/machine", "timeout/survival", "txn", "internal/failpoint"}, "a thin shell that knows an entry's tick and commands: the decisions are in the machine"},
	{"node/peer", []string{"txn", "internal/certs"}, "the port between nodes: raft's streams and a few questions; it does not know what is said"},
	{"node", []string{"node/peer", "raftfsm/...", "recovery", "timeout/...", "adaptive", "participant", "txn/machine", "txn", "internal/failpoint", "internal/certs", "internal/latency", "internal/asynclog", "internal/simenv"}, "it wires one coordinator together, and knows resources by their contract alone"},

	{"api/wire", []string{"api/txmgr/...", "txn"}, "it translates between the words of txn and the wire, for both ends"},
	{"api/...", []string{"api/..."}, "the wire, generated"},
	{"server/...", []string{"server/...", "node", "api/...", "participant", "txn", "internal/certs", "internal/asynclog"}, "a node on the network: it does not see the machine or the log"},
	{"client/...", []string{"client/...", "api/...", "txn"}, "what an application links: nothing of the server comes with it"},
	{"cmd/...", []string{"cmd/...", "server/...", "client/...", "node", "participant/...", "txn", "internal/..."}, "the command line asks and prints; only here are the kinds of participants named"},

	{"examples/...", []string{"client", "node", "participant/...", "txn"}, "what a user would write, and nothing that a user could not"},

	{"internal/certs", []string{"txn"}, "certificates: made, read, read again, and what they allow; both ports use it"},
	{"internal/latency", []string{"txn"}, "how long things took, for metrics"},
	{"internal/asynclog", nil, "a log that nobody waits for"},
	{"internal/simenv", nil, "ground of the simulation, which a node can be put on"},
	{"internal/failpoint", nil, "steps at which crash tests end the process; empty in every build but theirs"},
	{"internal/adaptivebench", []string{"adaptive", "internal/testdb"}, "the experiments of the adaptive pool: the pool, and a database to work on"},
	{"internal/adaptivesim", []string{"adaptive"}, "a pool that is simulated: the command line plays studies on it"},
	{"internal/adaptivestudy", []string{"adaptive", "internal/adaptivebench", "internal/adaptivesim"}, "parameters of the optimizers, varied on both"},
	{"internal/...", []string{"..."}, "beds and tools of the tests"},
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
			findings = append(findings, p.Dir+": no row of the table of arrows fits: add one, with its reason, here and in docs/architecture.md")
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
