package machine

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/txn/admin"
)

// cluster is apply for the commands that are about no transaction.
func (m *model) cluster(c Command) Code {
	switch c := c.(type) {
	case SetMember:
		if m.removed[c.Member.Node] {
			return Conflict
		}
		m.members[c.Member.Node] = c.Member
	case RemoveMember:
		if !m.removed[c.Node] {
			delete(m.members, c.Node)
			m.removed[c.Node] = true
			m.appendAudit(AuditRecord{Action: ActionRemoveMember, Subject: c.Node, By: c.By, Reason: c.Reason})
		}
	case AddToken:
		return m.addToken(c)
	case RemoveToken:
		t, ok := m.tokens[c.ID]
		if !ok {
			return NoToken
		}
		delete(m.tokens, c.ID)
		m.appendAudit(AuditRecord{Action: ActionRemoveToken, Subject: t.Name + " " + t.ID, By: c.By, Reason: c.Reason})
	case RecordAction:
		m.appendAudit(AuditRecord{Action: c.Action, Subject: c.Subject, By: c.By, Reason: c.Reason})
	case ResumeRecovery:
		if m.held {
			m.held, m.resumed = false, m.wall
			m.appendAudit(AuditRecord{Action: ActionResume, By: c.By, Reason: c.Reason})
		}
	default:
		return Malformed
	}
	return OK
}

func (m *model) addToken(c AddToken) Code {
	fresh := Token{ID: c.ID, Name: c.Name, Role: c.Role, Hash: c.Hash, Rate: c.Rate, Created: m.wall, Expires: c.Expires, By: c.By}
	for _, t := range m.tokens {
		t.Created = m.wall
		if t == fresh {
			return OK
		}
	}
	for _, t := range m.tokens {
		if t.ID == c.ID || t.Name == c.Name || t.Hash == c.Hash {
			return Conflict
		}
	}
	m.tokens[c.ID] = fresh
	m.appendAudit(AuditRecord{Action: ActionAddToken, Subject: c.Name + " " + c.ID, By: c.By, Reason: c.Reason})
	return OK
}

func drawCluster(t *rapid.T) Command {
	node := rapid.SampledFrom([]string{"n_1", "n_2", "n_3"}).Draw(t, "node")
	text := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "text")
	token := rapid.SampledFrom([]string{"aaaa", "bbbb", "cccc"})
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return SetMember{Member{Node: node, Name: text, API: "https://" + text, Version: "v" + text}}
	case 1:
		return RemoveMember{Node: node, By: text, Reason: "gone"}
	case 2, 3:
		return AddToken{
			ID: token.Draw(t, "id"), Name: token.Draw(t, "name"), Role: admin.RoleClient, By: text, Reason: text,
			Hash: [32]byte{rapid.ByteRange(1, 4).Draw(t, "hash")}, Rate: 7, Expires: rapid.Int64Range(0, 1).Draw(t, "expires"),
		}
	case 4:
		return RemoveToken{ID: token.Draw(t, "id"), By: text, Reason: "lost"}
	case 5:
		return RecordAction{Action: rapid.SampledFrom([]AuditAction{ActionAddMember, ActionRequestTransfer}).Draw(t, "action"), Subject: node, By: text, Reason: text}
	}
	return ResumeRecovery{By: text, Reason: "compared"}
}

// compareCluster compares everything about the cluster, by every method that reads it.
func compareCluster(t *rapid.T, m *Machine, model *model) {
	members := slices.Clone(m.Members())
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Node, b.Node) })
	want := slices.SortedFunc(maps.Values(model.members), func(a, b Member) int { return strings.Compare(a.Node, b.Node) })
	if d := gocmp.Diff(want, members, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("members (-model +machine):\n%s", d)
	}
	for _, node := range []string{"n_1", "n_2", "n_3", ""} {
		if m.Removed(node) != model.removed[node] {
			t.Fatalf("%q removed: %v", node, m.Removed(node))
		}
	}
	tokens := slices.Clone(m.Tokens())
	slices.SortFunc(tokens, func(a, b Token) int { return cmp.Compare(a.ID, b.ID) })
	wanted := slices.SortedFunc(maps.Values(model.tokens), func(a, b Token) int { return cmp.Compare(a.ID, b.ID) })
	if d := gocmp.Diff(wanted, tokens, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("tokens (-model +machine):\n%s", d)
	}
	for h := range byte(6) {
		i := slices.IndexFunc(wanted, func(t Token) bool { return t.Hash == [32]byte{h} })
		if got, ok := m.TokenByHash([32]byte{h}); ok != (i >= 0) || ok && got != wanted[i] {
			t.Fatalf("token with hash %d: %+v, %v", h, got, ok)
		}
	}
	for _, x := range wanted {
		if got, ok := m.Token(x.ID); !ok || got != x {
			t.Fatalf("token %s: %+v, %v", x.ID, got, ok)
		}
	}
	for _, made := range []int64{model.resumed, model.resumed + 2, model.resumed + 3} {
		lost := model.restored && (model.held || made <= model.resumed+2)
		if m.MayPredateBackup(made, 2) != lost {
			t.Fatalf("made at %d, resumed at %d: lost is %v", made, model.resumed, !lost)
		}
	}
	if m.RecoveryPaused() != model.held {
		t.Fatalf("held: %v; the model says %v", m.RecoveryPaused(), model.held)
	}
}
