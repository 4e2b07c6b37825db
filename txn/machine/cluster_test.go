package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The transition table of commands that are about no transaction: every state × every command.

var (
	alice  = Member{Node: "n_a", Name: "alice", API: "https://a:7460", Version: "v1"}
	client = AddToken{ID: "aaaaaaaa", Name: "app", Role: admin.RoleClient, Hash: [32]byte{1}, Rate: 5, Expires: 9, By: "ann"}
)

// but changes a copy.
func but[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

var clusterWorlds = []scenario{
	{name: "founded"},
	{name: "member", make: []Command{SetMember{alice}}},
	{name: "member removed", make: []Command{SetMember{alice}, RemoveMember{Node: "n_a", By: "ann"}}},
	{name: "token", make: []Command{client}},
	{name: "token removed", make: []Command{client, RemoveToken{ID: client.ID}}},
	{name: "held", make: []Command{SetMember{alice}, client}, held: true},
	{name: "resumed", make: []Command{SetMember{alice}, client, ResumeRecovery{By: "ann", Reason: "compared"}}, held: true},
	{name: "full", make: fullCluster()},
}

// fullCluster has as many of each sort as there may be.
func fullCluster() (commands []Command) {
	for i := range MaxMembers {
		commands = append(commands, SetMember{Member{Node: fmt.Sprintf("n_%d", i)}})
	}
	for i := range MaxRemoved {
		commands = append(commands, RemoveMember{Node: fmt.Sprintf("gone_%d", i)})
	}
	for i := range admin.MaxTokens {
		commands = append(commands, AddToken{ID: fmt.Sprint(i), Name: fmt.Sprint("t", i), Role: admin.RoleReader, Hash: [32]byte{1: byte(i), 2: byte(i >> 8), 3: 1}})
	}
	return commands
}

var clusterCommands = []struct {
	name string
	c    Command
}{
	{"set alice", SetMember{alice}},
	{"set alice, moved", SetMember{but(alice, func(m *Member) { m.API = "https://b:7460" })}},
	{"set nobody", SetMember{Member{Name: "nobody"}}},
	{"set long id", SetMember{Member{Node: strings.Repeat("n", MaxNodeID+1)}}},
	{"set long name", SetMember{but(alice, func(m *Member) { m.Name = strings.Repeat("n", MaxMemberText+1) })}},
	{"set long url", SetMember{but(alice, func(m *Member) { m.API = strings.Repeat("n", MaxMemberText+1) })}},
	{"set long version", SetMember{but(alice, func(m *Member) { m.Version = strings.Repeat("n", MaxMemberText+1) })}},
	{"remove alice", RemoveMember{Node: "n_a", By: "bob", Reason: "broken"}},
	{"remove unheard", RemoveMember{Node: "n_z"}},
	{"remove nobody", RemoveMember{}},
	{"remove, long by", RemoveMember{Node: "n_a", By: strings.Repeat("b", MaxBy+1)}},
	{"remove, long why", RemoveMember{Node: "n_a", Reason: strings.Repeat("b", txn.MaxReason+1)}},
	{"add", client},
	{"add, other role", but(client, func(c *AddToken) { c.Role = admin.RoleAdmin })},
	{"add, other rate", but(client, func(c *AddToken) { c.Rate++ })},
	{"add, other secret", but(client, func(c *AddToken) { c.Hash[31]++ })},
	{"add, other id", but(client, func(c *AddToken) { c.ID = "bbbbbbbb" })},
	{"add, other name", but(client, func(c *AddToken) { c.Name = "else" })},
	{"add, all other", but(client, func(c *AddToken) { c.ID, c.Name, c.Hash = "bbbbbbbb", "else", [32]byte{2} })},
	{"add, no id", but(client, func(c *AddToken) { c.ID = "" })},
	{"add, long id", but(client, func(c *AddToken) { c.ID = strings.Repeat("i", MaxTokenID+1) })},
	{"add, no name", but(client, func(c *AddToken) { c.Name = "" })},
	{"add, long name", but(client, func(c *AddToken) { c.Name = strings.Repeat("i", admin.MaxTokenName+1) })},
	{"add, no role", but(client, func(c *AddToken) { c.Role = 0 })},
	{"add, role 9", but(client, func(c *AddToken) { c.Role = 9 })},
	{"add, no secret", but(client, func(c *AddToken) { c.Hash = [32]byte{} })},
	{"add, expires < 0", but(client, func(c *AddToken) { c.Expires = -1 })},
	{"add, long by", but(client, func(c *AddToken) { c.By = strings.Repeat("b", MaxBy+1) })},
	{"revoke", RemoveToken{ID: client.ID, By: "bob", Reason: "lost"}},
	{"revoke unknown", RemoveToken{ID: "zzzzzzzz"}},
	{"revoke, long why", RemoveToken{ID: client.ID, Reason: strings.Repeat("b", txn.MaxReason+1)}},
	{"add, reason", but(client, func(c *AddToken) { c.Reason = "for the shop" })},
	{"add, long why", but(client, func(c *AddToken) { c.Reason = strings.Repeat("b", txn.MaxReason+1) })},
	{"record join", RecordAction{Action: ActionAddMember, Subject: "n_a", By: "bob", Reason: "one more"}},
	{"record transfer", RecordAction{Action: ActionRequestTransfer, Subject: "n_a", By: "bob", Reason: "maintenance"}},
	{"record nobody", RecordAction{Action: ActionAddMember, By: "bob"}},
	{"record, long id", RecordAction{Action: ActionAddMember, Subject: strings.Repeat("n", MaxNodeID+1)}},
	{"record, long by", RecordAction{Action: ActionAddMember, Subject: "n_a", By: strings.Repeat("b", MaxBy+1)}},
	{"record, long why", RecordAction{Action: ActionAddMember, Subject: "n_a", Reason: strings.Repeat("b", txn.MaxReason+1)}},
	{"record resume", RecordAction{Action: ActionResume, Subject: "n_a", By: "bob", Reason: "compared"}},
	{"record nothing", RecordAction{Subject: "n_a"}},
	{"record next", RecordAction{Action: lastAction + 1, Subject: "n_a"}},
	{"resume", ResumeRecovery{By: "bob", Reason: "compared"}},
	{"resume, no reason", ResumeRecovery{By: "bob"}},
	{"resume, long by", ResumeRecovery{By: strings.Repeat("b", MaxBy+1), Reason: "r"}},
	{"begin", begin},
}

// TestClusterTable: a refused command or a repeat must not change anything; an operator's
// action that changed something is in the audit trail.
func TestClusterTable(t *testing.T) {
	var got strings.Builder
	for _, w := range clusterWorlds {
		fmt.Fprintf(&got, "%s\n", w.name)
		m := w.build(t)
		if w.name == "resumed" {
			m.Apply(Entry{Wall: 5, Commands: []Command{ResumeRecovery{By: "ann", Reason: "compared"}}})
		}
		s := m.Snapshot()
		for _, c := range clusterCommands {
			if w.name == "full" && !slices.Contains([]string{"set alice", "remove alice", "add", "revoke unknown", "resume", "begin"}, c.name) {
				continue // it takes long, and is about the limits
			}
			m, err := Restore(s.Header(), withoutError(s.Sessions()), withoutError(s.Transactions()))
			if err != nil {
				t.Fatal(err)
			}
			hash := m.Hash()
			code := m.Apply(Entry{Wall: 7, Commands: []Command{c.c}}).Results[0].Code
			if err := m.CheckInvariants(); err != nil {
				t.Errorf("%s, %s: %v", w.name, c.name, err)
			}
			changed := "unchanged"
			if m.Hash() != hash {
				changed = "changed"
			}
			trail := ""
			if n := len(s.Header().Audit); len(m.Audit()) > n || n == MaxAudit && m.Audit()[n-1].Seq > s.Header().Audit[n-1].Seq {
				a := m.Audit()[len(m.Audit())-1].Public()
				trail = strings.TrimSuffix(fmt.Sprintf(" %s %s, by %s: %s", a.Action, a.Subject, a.By, a.Reason), ", by : ")
			}
			fmt.Fprintf(&got, "  %-18s %-12s %s%s\n", c.name, codeNames[code], changed, trail)
			if code != OK && changed == "changed" {
				t.Errorf("%s, %s: refused with %s, but the state is another", w.name, c.name, codeNames[code])
			}
			hash = m.Hash()
			again := m.Apply(Entry{Wall: 8, Commands: []Command{c.c}}).Results[0].Code
			_, record := c.c.(RecordAction) // each one counts
			if again != code && !(code == OK && again == NoToken) || m.Hash() != hash && !(record && code == OK) {
				t.Errorf("%s, %s: %s, and at a repeat %s", w.name, c.name, codeNames[code], codeNames[again])
			}
		}
		s.Release()
	}
	checkGolden(t, "cluster.txt", got.String())
}

// TestReadersKeepWhatTheySaw: lists that were handed out do not change.
func TestReadersKeepWhatTheySaw(t *testing.T) {
	m := bootstrapped(t)
	do := func(cs ...Command) { m.Apply(Entry{Wall: 3, Commands: cs}) }
	bob := Member{Node: "n_b"}
	second := but(client, func(c *AddToken) { c.ID, c.Name, c.Hash = "bbbbbbbb", "else", [32]byte{2} })
	do(SetMember{alice}, SetMember{bob}, client, second, RemoveMember{Node: "n_x"})
	s := m.Snapshot()
	defer s.Release()
	before := fmt.Sprintf("%+v", s.Header())
	do(SetMember{but(alice, func(c *Member) { c.API = "moved" })}, RemoveMember{Node: "n_b"}, RemoveToken{ID: client.ID})
	do(but(client, func(c *AddToken) { c.Role = admin.RoleAdmin }), RemoveMember{Node: "n_y"}, SetMember{Member{Node: "n_c"}})
	if after := fmt.Sprintf("%+v", s.Header()); after != before {
		t.Errorf("a snapshot changed:\n%s\n%s", before, after)
	}
	if got, ok := m.Token("app"); !ok || got.Role != admin.RoleAdmin || m.Removed("n_a") || !m.Removed("n_b") || m.Removed("n_c") {
		t.Errorf("%+v, %v", got, ok)
	}
}

// TestRestoreRefusesClusters that contradict themselves.
func TestRestoreRefusesClusters(t *testing.T) {
	token := Token{ID: "a", Name: "n", Role: admin.RoleReader, Hash: [32]byte{1}}
	for name, h := range map[string]Header{
		"member twice":        {Members: []Member{alice, alice}},
		"member that is gone": {Members: []Member{alice}, Removed: []string{alice.Node}},
		"removed twice":       {Removed: []string{"a", "a"}},
		"removed without id":  {Removed: []string{""}},
		"too many members":    {Members: make([]Member, MaxMembers+1)},
		"too many removed":    {Removed: make([]string, MaxRemoved+1)},
		"too many tokens":     {Tokens: make([]Token, admin.MaxTokens+1)},
		"token without role":  {Tokens: []Token{but(token, func(t *Token) { t.Role = 0 })}},
		"name twice":          {Tokens: []Token{token, but(token, func(t *Token) { t.ID, t.Hash[0] = "b", 2 })}},
		"secret twice":        {Tokens: []Token{token, but(token, func(t *Token) { t.ID, t.Name = "b", "m" })}},
	} {
		if _, err := Restore(h, nothing[*Session], nothing[*Transaction]); err == nil {
			t.Errorf("%s was restored", name)
		}
	}
}
