package machine

import (
	"maps"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// participantRegistry numbers the participants. A number is never given to another name,
// since old transactions refer to it.
type participantRegistry struct {
	list      []participantEntry
	published []Registration    // the same for readers: replaced, never changed
	byName    map[string]uint32 // for look-ups, never ranged over
	beginSeq  uint64            // of the begin that is being checked
}

// participantEntry is a participant with what the machine counts.
type participantEntry struct {
	Registration
	unfinished int    // unfinished branches there
	seenIn     uint64 // the last begin in which it was seen
}

func newParticipantRegistry() participantRegistry {
	return participantRegistry{byName: make(map[string]uint32)}
}

// find returns the number of a registered participant.
func (g *participantRegistry) find(name string) (uint32, bool) {
	p, ok := g.byName[name]
	return p, ok && !g.list[p].Removed
}

// markSeen reports whether p came before in the begin that is being checked.
func (g *participantRegistry) markSeen(p uint32) bool {
	was := g.list[p].seenIn == g.beginSeq
	g.list[p].seenIn = g.beginSeq
	return was
}

// publish makes changes visible to readers.
func (g *participantRegistry) publish() {
	g.published = make([]Registration, len(g.list))
	for i := range g.list {
		g.published[i] = g.list[i].Registration
	}
}

// registerParticipant audits the operator and the changes.
func (m *Machine) registerParticipant(c RegisterParticipant) Result {
	if !validAudit(c.By, c.Reason) {
		return Result{Code: Malformed}
	}
	var old map[string]string
	if n, known := m.participants.find(c.Participant.Name); known {
		old = m.participants.list[n].Settings
	}
	subject := c.Participant.Name + ": " + settingChanges(c.Participant.Kind, old, c.Participant.Settings)
	return m.addParticipant(c.Participant, AuditRecord{Action: ActionAddParticipant, Subject: subject, By: c.By, Reason: c.Reason})
}

func (m *Machine) addParticipant(p admin.Participant, a AuditRecord) Result {
	if p.Check() != nil {
		return Result{Code: Malformed}
	}
	p.Settings = maps.Clone(p.Settings)
	n, known := m.participants.byName[p.Name]
	switch {
	case known && m.participants.list[n].same(&p):
		return Result{}
	case known && !m.participants.list[n].Removed && m.participants.list[n].Kind != p.Kind:
		return Result{Code: Conflict}
	case known && m.participants.list[n].unfinished > 0 && m.participants.list[n].CoordinatorPrepares != p.CoordinatorPrepares:
		return Result{Code: InUse}
	case known:
		m.participants.list[n].Registration = Registration{Participant: p}
	case len(m.participants.list) == txn.MaxParticipants:
		return Result{Code: TooMany}
	default:
		m.participants.byName[p.Name] = uint32(len(m.participants.list))
		m.participants.list = append(m.participants.list, participantEntry{Registration: Registration{Participant: p}})
	}
	m.participants.publish()
	m.appendAudit(a)
	return Result{}
}

// same reports whether p is registered as it stands.
func (g *Registration) same(p *admin.Participant) bool {
	return !g.Removed && g.Kind == p.Kind && g.CoordinatorPrepares == p.CoordinatorPrepares && maps.Equal(g.Settings, p.Settings)
}

// removeParticipant also carries out the command of earlier releases, which names no operator.
func (m *Machine) removeParticipant(c UnregisterParticipant) Result {
	if !validAudit(c.By, c.Reason) {
		return Result{Code: Malformed}
	}
	n, ok := m.participants.find(c.Name)
	if !ok {
		return Result{Code: NoParticipant}
	}
	if m.participants.list[n].unfinished > 0 {
		return Result{Code: InUse}
	}
	m.participants.list[n].Removed = true
	m.participants.publish()
	m.appendAudit(AuditRecord{Action: ActionRemoveParticipant, Subject: c.Name, By: c.By, Reason: c.Reason})
	return Result{}
}
