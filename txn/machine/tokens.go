package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/txmgr/txmgr/txn/admin"
)

// MaxTokenID is the longest id of a token, in bytes.
const MaxTokenID = 16

// Token authenticates its bearer. Only the hash of its secret is known.
type Token struct {
	ID      string
	Name    string
	Role    admin.Role
	Hash    [32]byte // SHA-256 of the secret
	Rate    uint32
	Created int64 // leader's wall clock, milliseconds since 1970
	Expires int64 // as Created; 0 means never
	By      string
}

// Public returns the public form.
func (t *Token) Public() admin.Token {
	s := admin.Token{ID: t.ID, Name: t.Name, Role: t.Role, Rate: t.Rate, Created: time.UnixMilli(t.Created).UTC(), By: t.By}
	if t.Expires != 0 {
		s.Expires = time.UnixMilli(t.Expires).UTC()
	}
	return s
}

// subject is the token in the audit trail.
func (t *Token) subject() string { return t.Name + " " + t.ID }

func (t *Token) valid() bool {
	return t.ID != "" && len(t.ID) <= MaxTokenID && t.Name != "" && len(t.Name) <= admin.MaxTokenName &&
		t.Role >= admin.RoleReader && t.Role <= admin.RoleAdmin && t.Hash != [32]byte{} && t.Expires >= 0 && len(t.By) <= MaxBy
}

// tokens is the list of tokens, in the order in which they were made, with indexes. Readers may
// keep the list: it grows, or is replaced.
type tokens struct {
	list         appendOnly[Token]
	byHash       map[[32]byte]int // these three are for look-ups, never ranged over
	byID, byName map[string]int
}

func newTokens() tokens {
	return tokens{byHash: make(map[[32]byte]int), byID: make(map[string]int), byName: make(map[string]int)}
}

func (g *tokens) all() []Token { return g.list.all() }

// Tokens returns all tokens, in the order in which they were made, expired ones included. They
// must not be changed, and may be kept.
func (m *Machine) Tokens() []Token { return m.tokens.all() }

// TokenByHash finds a token by the SHA-256 of its secret, expired or not: the caller has a
// clock.
func (m *Machine) TokenByHash(hash [32]byte) (Token, bool) {
	i, ok := m.tokens.byHash[hash]
	return m.tokens.at(i, ok)
}

// Token finds a token by its id or, when no token has such an id, by its name.
func (m *Machine) Token(idOrName string) (Token, bool) {
	i, ok := m.tokens.byID[idOrName]
	if !ok {
		i, ok = m.tokens.byName[idOrName]
	}
	return m.tokens.at(i, ok)
}

func (g *tokens) at(i int, ok bool) (Token, bool) {
	if !ok {
		return Token{}, false
	}
	return g.list[i], true
}

// taken reports whether a token has the id, the name or the secret.
func (g *tokens) taken(t *Token) bool {
	_, id := g.byID[t.ID]
	_, name := g.byName[t.Name]
	_, hash := g.byHash[t.Hash]
	return id || name || hash
}

func (g *tokens) add(t Token) {
	i := len(g.list)
	g.list = append(g.list, t)
	g.byID[t.ID], g.byName[t.Name], g.byHash[t.Hash] = i, i, i
}

func (m *Machine) addToken(c AddToken) Result {
	t := Token{ID: c.ID, Name: c.Name, Role: c.Role, Hash: c.Hash, Rate: c.Rate, Created: m.wall, Expires: c.Expires, By: c.By}
	if !t.valid() || !validAudit(c.By, c.Reason) {
		return Result{Code: Malformed}
	}
	if i, ok := m.tokens.byID[c.ID]; ok {
		old := m.tokens.list[i]
		old.Created = t.Created // a repeat comes later
		if old == t {
			return Result{}
		}
	}
	switch {
	case m.tokens.taken(&t):
		return Result{Code: Conflict}
	case len(m.tokens.list) == admin.MaxTokens:
		return Result{Code: TooMany}
	}
	m.tokens.add(t)
	m.appendAudit(AuditRecord{Action: ActionAddToken, Subject: t.subject(), By: c.By, Reason: c.Reason})
	return Result{}
}

func (m *Machine) removeToken(c RemoveToken) Result {
	i, ok := m.tokens.byID[c.ID]
	switch {
	case !validAudit(c.By, c.Reason):
		return Result{Code: Malformed}
	case !ok:
		return Result{Code: NoToken}
	}
	old := m.tokens.list
	m.appendAudit(AuditRecord{Action: ActionRemoveToken, Subject: old[i].subject(), By: c.By, Reason: c.Reason})
	m.tokens = newTokens()
	for k := range old {
		if k != i {
			m.tokens.add(old[k])
		}
	}
	return Result{}
}

func (g *tokens) restore(list []Token) error {
	if len(list) > admin.MaxTokens {
		return fmt.Errorf("%d tokens; at most %d", len(list), admin.MaxTokens)
	}
	for i := range list {
		if t := &list[i]; !t.valid() || g.taken(t) {
			return fmt.Errorf("token %.16q twice, or not as tokens are", t.ID)
		}
		g.add(list[i])
	}
	return nil
}

// check verifies that the indexes agree with the list.
func (g *tokens) check() error {
	fresh := newTokens()
	if err := fresh.restore(g.list); err != nil {
		return err
	}
	n := len(g.list)
	if len(g.byID) != n || len(g.byName) != n || len(g.byHash) != n {
		return fmt.Errorf("%d tokens; %d by id, %d by name, %d by hash", n, len(g.byID), len(g.byName), len(g.byHash))
	}
	wrong := slices.IndexFunc(g.list, func(t Token) bool {
		i := fresh.byID[t.ID]
		return g.byID[t.ID] != i || g.byName[t.Name] != i || g.byHash[t.Hash] != i
	})
	if wrong >= 0 {
		return fmt.Errorf("token %q is not found where it is", g.list[wrong].ID)
	}
	return nil
}
