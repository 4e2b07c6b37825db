package machine

import (
	"maps"

	"github.com/txmgr/txmgr/txn"
)

// registry numbers the participants. A number is never given to another name,
// since old transactions refer to it.
type registry struct {
	list   []listed
	shown  []Registration    // the same for readers: replaced, never changed
	byName map[string]uint32 // looked up, never ranged over
	round  uint64            // of the begin that is being checked
}

// listed is a participant with what the machine counts.
type listed struct {
	Registration
	open  int    // unfinished branches there
	round uint64 // the last begin in which it was seen
}

func newRegistry() registry { return registry{byName: make(map[string]uint32)} }

// find gives the number of a registered participant.
func (g *registry) find(name string) (uint32, bool) {
	p, ok := g.byName[name]
	return p, ok && !g.list[p].Removed
}

// seen reports whether p came before in the begin that is being checked.
func (g *registry) seen(p uint32) bool {
	was := g.list[p].round == g.round
	g.list[p].round = g.round
	return was
}

// show makes what has changed visible to readers.
func (g *registry) show() {
	g.shown = make([]Registration, len(g.list))
	for i := range g.list {
		g.shown[i] = g.list[i].Registration
	}
}

// registerParticipant audits who it was and what has changed.
func (m *Machine) registerParticipant(c RegisterParticipant) Result {
	if !validNote(c.By, c.Reason) {
		return Result{Code: Malformed}
	}
	var old map[string]string
	if n, known := m.parts.find(c.Participant.Name); known {
		old = m.parts.list[n].Settings
	}
	subject := c.Participant.Name + ": " + settingChanges(c.Participant.Kind, old, c.Participant.Settings)
	return m.addParticipant(c.Participant, AuditRecord{Action: ActionAddParticipant, Subject: subject, By: c.By, Reason: c.Reason})
}

func (m *Machine) addParticipant(p txn.Participant, a AuditRecord) Result {
	if p.Check() != nil {
		return Result{Code: Malformed}
	}
	p.Settings = maps.Clone(p.Settings)
	n, known := m.parts.byName[p.Name]
	switch {
	case known && m.parts.list[n].same(&p):
		return Result{}
	case known && !m.parts.list[n].Removed && m.parts.list[n].Kind != p.Kind:
		return Result{Code: Conflict}
	case known && m.parts.list[n].open > 0 && m.parts.list[n].CoordinatorPrepares != p.CoordinatorPrepares:
		return Result{Code: InUse}
	case known:
		m.parts.list[n].Registration = Registration{Participant: p}
	case len(m.parts.list) == txn.MaxParticipants:
		return Result{Code: TooMany}
	default:
		m.parts.byName[p.Name] = uint32(len(m.parts.list))
		m.parts.list = append(m.parts.list, listed{Registration: Registration{Participant: p}})
	}
	m.parts.show()
	m.note(a)
	return Result{}
}

// same reports whether p is registered as it stands.
func (g *Registration) same(p *txn.Participant) bool {
	return !g.Removed && g.Kind == p.Kind && g.CoordinatorPrepares == p.CoordinatorPrepares && maps.Equal(g.Settings, p.Settings)
}

// removeParticipant also carries out what earlier releases wrote, with nobody's name.
func (m *Machine) removeParticipant(c UnregisterParticipant) Result {
	if !validNote(c.By, c.Reason) {
		return Result{Code: Malformed}
	}
	n, ok := m.parts.find(c.Name)
	if !ok {
		return Result{Code: NoParticipant}
	}
	if m.parts.list[n].open > 0 {
		return Result{Code: InUse}
	}
	m.parts.list[n].Removed = true
	m.parts.show()
	m.note(AuditRecord{Action: ActionRemoveParticipant, Subject: c.Name, By: c.By, Reason: c.Reason})
	return Result{}
}
