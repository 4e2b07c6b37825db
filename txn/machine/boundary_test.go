package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestTwoVotesOfOneBranchInOneCall: the same vote twice is one vote, two different ones
// are refused and change nothing, in whichever order they come.
func TestTwoVotesOfOneBranchInOneCall(t *testing.T) {
	vote := func(votes ...txn.Vote) (list []txn.BranchVote) {
		for _, v := range votes {
			list = append(list, txn.BranchVote{Branch: 2, Vote: v})
		}
		return list
	}
	for _, c := range []struct {
		votes []txn.BranchVote
		want  Code
	}{
		{vote(txn.VotePrepared, txn.VotePrepared), OK},
		{vote(txn.VoteReadOnly, txn.VoteReadOnly), OK},
		{vote(txn.VotePrepared, txn.VoteReadOnly), BadVote},
		{vote(txn.VoteReadOnly, txn.VotePrepared), BadVote},
		{vote(txn.VotePrepared, txn.VoteNo), BadVote},
		{vote(txn.VoteNo, txn.VotePrepared), BadVote},
	} {
		for name, command := range map[string]Command{"vote": Vote{ID: testID(1), Votes: c.votes}, "commit": Commit{ID: testID(1), Votes: append(c.votes, txn.BranchVote{Branch: 1, Vote: txn.VotePrepared})}} {
			m := bootstrapped(t, "bank", "shop", "stock")
			if r := m.Apply(Entry{Commands: []Command{Begin{ID: testID(1), Timeout: time.Second, Expiry: 100, Branches: []Branch{{Participant: "bank"}, {Participant: "shop"}, {Participant: "stock"}}}}}).Results[0]; r.Code != OK {
				t.Fatal(codeNames[r.Code])
			}
			before := m.Hash()
			r := m.Apply(Entry{Commands: []Command{command}}).Results[0]
			want := c.want
			if name == "commit" && want == OK {
				want = MissingVote // the third branch has not voted
			}
			if r.Code != want || want == BadVote && (r.Branch != 2 || m.Hash() != before) {
				t.Errorf("%s with %v: %s, branch %v, changed: %v; want %s", name, c.votes, codeNames[r.Code], r.Branch, m.Hash() != before, codeNames[want])
			}
			if o, _ := m.Lookup(testID(1)); o.State != txn.Active {
				t.Errorf("%s with %v: %v", name, c.votes, o.State)
			}
			if err := m.CheckInvariants(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTheLargestBeginThatIsLegal: every string at its limit is accepted, and one byte more is
// refused.
func TestTheLargestBeginThatIsLegal(t *testing.T) {
	labels := func(n, key, value int) (list []Label) {
		for i := range n {
			list = append(list, Label{Key: fmt.Sprintf("%0*d", key, i), Value: strings.Repeat("v", value)})
		}
		return list
	}
	branch := func(payload, session int) []Branch {
		return []Branch{{Participant: "bank", Payload: make([]byte, payload), SessionRef: strings.Repeat("s", session)}}
	}
	const none = -1 << 62
	for name, c := range map[string]struct {
		begin Begin
		want  Code
	}{
		"name":             {Begin{Name: strings.Repeat("n", txn.MaxName)}, OK},
		"longer name":      {Begin{Name: strings.Repeat("n", txn.MaxName+1)}, Malformed},
		"labels":           {Begin{Labels: labels(txn.MaxLabels, 3, 3)}, OK},
		"more labels":      {Begin{Labels: labels(txn.MaxLabels+1, 3, 3)}, Malformed},
		"label":            {Begin{Labels: labels(1, txn.MaxLabel, txn.MaxLabel)}, OK},
		"longer key":       {Begin{Labels: labels(1, txn.MaxLabel+1, 0)}, Malformed},
		"longer value":     {Begin{Labels: labels(1, 1, txn.MaxLabel+1)}, Malformed},
		"payload":          {Begin{Branches: branch(txn.MaxPayload, 0)}, OK},
		"longer payload":   {Begin{Branches: branch(txn.MaxPayload+1, 0)}, Malformed},
		"session":          {Begin{Branches: branch(0, txn.MaxSessionRef)}, OK},
		"longer session":   {Begin{Branches: branch(0, txn.MaxSessionRef+1)}, Malformed},
		"shortest timeout": {Begin{Timeout: 1}, OK},
		"no timeout":       {Begin{Timeout: none}, Malformed},
	} {
		m := bootstrapped(t, "bank")
		c.begin.ID, c.begin.Expiry = testID(1), 100
		switch c.begin.Timeout {
		case 0:
			c.begin.Timeout = time.Second
		case none:
			c.begin.Timeout = 0
		}
		r := m.Apply(Entry{Commands: []Command{c.begin}}).Results[0]
		if _, there := m.Lookup(testID(1)); r.Code != c.want || there != (c.want == OK) {
			t.Errorf("%s: %s, begun: %v; want %s", name, codeNames[r.Code], there, codeNames[c.want])
		}
	}
}

// TestAsManyBranchesAsAreLegal: the limit is the same in one begin and one after another.
func TestAsManyBranchesAsAreLegal(t *testing.T) {
	var names []string
	var branches []Branch
	for i := range txn.MaxBranches + 1 {
		names = append(names, fmt.Sprintf("p%d", i))
		branches = append(branches, Branch{Participant: names[i]})
	}
	m := bootstrapped(t, names...)
	begin := func(id uint64, branches []Branch) Code {
		return m.Apply(Entry{Commands: []Command{Begin{ID: testID(id), Timeout: time.Second, Expiry: 100, Branches: branches}}}).Results[0].Code
	}
	enlist := func(id uint64, b Branch) Code {
		return m.Apply(Entry{Commands: []Command{Enlist{ID: testID(id), Branch: b}}}).Results[0].Code
	}
	if code := begin(1, branches); code != TooMany {
		t.Errorf("a begin with %d branches: %s", len(branches), codeNames[code])
	}
	if code := begin(2, branches[:txn.MaxBranches]); code != OK {
		t.Errorf("a begin with %d branches: %s", txn.MaxBranches, codeNames[code])
	}
	if code := enlist(2, branches[txn.MaxBranches]); code != TooMany {
		t.Errorf("one more enlisted: %s", codeNames[code])
	}
	if code := begin(3, branches[:txn.MaxBranches-1]); code != OK {
		t.Error(codeNames[code])
	}
	if code := enlist(3, branches[txn.MaxBranches]); code != OK {
		t.Errorf("branch %d enlisted: %s", txn.MaxBranches, codeNames[code])
	}
}

// TestNodesAtTheirLimits: strings, the number of members, and of removed nodes.
func TestNodesAtTheirLimits(t *testing.T) {
	m := bootstrapped(t)
	code := func(c Command) Code { return m.Apply(Entry{Commands: []Command{c}}).Results[0].Code }
	long, longer := strings.Repeat("x", MaxMemberText), strings.Repeat("x", MaxMemberText+1)
	for name, c := range map[string]struct {
		member Member
		want   Code
	}{
		"id":             {Member{Node: strings.Repeat("n", MaxNodeID)}, OK},
		"longer id":      {Member{Node: strings.Repeat("n", MaxNodeID+1)}, Malformed},
		"no id":          {Member{}, Malformed},
		"texts":          {Member{Node: "n", Name: long, API: long, Version: long}, OK},
		"longer name":    {Member{Node: "n", Name: longer}, Malformed},
		"longer API":     {Member{Node: "n", API: longer}, Malformed},
		"longer version": {Member{Node: "n", Version: longer}, Malformed},
	} {
		if got := code(SetMember{c.member}); got != c.want {
			t.Errorf("%s: %s; want %s", name, codeNames[got], codeNames[c.want])
		}
	}
	for i := len(m.Members()); i < MaxMembers; i++ {
		if got := code(SetMember{Member{Node: fmt.Sprintf("m%d", i)}}); got != OK {
			t.Fatalf("member %d: %s", i+1, codeNames[got])
		}
	}
	if got := code(SetMember{Member{Node: "one more"}}); got != TooMany {
		t.Errorf("member %d: %s", MaxMembers+1, codeNames[got])
	}
	if got := code(SetMember{Member{Node: "n", Name: "again"}}); got != OK {
		t.Errorf("a member says something new while there are as many as there may be: %s", codeNames[got])
	}
	var removals []Command
	for i := range MaxRemoved + 1 {
		removals = append(removals, RemoveMember{Node: fmt.Sprintf("r%d", i), By: "ann", Reason: "test"})
	}
	for i, r := range m.Apply(Entry{Commands: removals}).Results {
		if want := map[bool]Code{true: OK, false: TooMany}[i < MaxRemoved]; r.Code != want {
			t.Fatalf("removal %d: %s; want %s", i+1, codeNames[r.Code], codeNames[want])
		}
	}
}

// TestWhatOperatorsSayAtItsLimits: a name and a reason of the largest size are accepted, and
// one byte more is refused.
func TestWhatOperatorsSayAtItsLimits(t *testing.T) {
	hazard := ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicRollback}
	for name, c := range map[string]struct {
		make []Command
		say  func(by, reason string) Command
	}{
		"forget": {[]Command{sole, Commit{ID: one, Votes: []txn.BranchVote{yes1}}, hazard}, func(by, reason string) Command { return Forget{ID: one, By: by, Reason: reason} }},
		"resolve": {[]Command{sole}, func(by, reason string) Command {
			return Resolve{ID: one, Outcome: txn.BranchRolledBack, By: by, Reason: reason}
		}},
		"remove member": {nil, func(by, reason string) Command { return RemoveMember{Node: "n", By: by, Reason: reason} }},
		"add token":     {nil, func(by, reason string) Command { return but(client, func(c *AddToken) { c.By, c.Reason = by, reason }) }},
		"record": {nil, func(by, reason string) Command {
			return RecordAction{Action: ActionAddMember, Subject: strings.Repeat("n", MaxNodeID), By: by, Reason: reason}
		}},
		"resume":     {nil, func(by, reason string) Command { return ResumeRecovery{By: by, Reason: reason} }},
		"unregister": {nil, func(by, reason string) Command { return UnregisterParticipant{Name: "bank", By: by, Reason: reason} }},
	} {
		for more, want := range map[[2]int]Code{{0, 0}: OK, {1, 0}: Malformed, {0, 1}: Malformed} {
			m := (scenario{make: c.make, held: name == "resume"}).build(t)
			said := c.say(strings.Repeat("b", MaxBy+more[0]), strings.Repeat("r", txn.MaxReason+more[1]))
			if got := m.Apply(Entry{Commands: []Command{said}}).Results[0].Code; got != want {
				t.Errorf("%s, %d and %d bytes too long: %s; want %s", name, more[0], more[1], codeNames[got], codeNames[want])
			}
		}
	}
}
