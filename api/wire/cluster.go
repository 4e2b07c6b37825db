package wire

import (
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn/admin"
)

// FromMember gives the message for a node of the cluster.
func FromMember(m admin.Member) *txmgrv1.Member {
	return &txmgrv1.Member{
		Id: Text(m.ID), Name: Text(m.Name), RaftAddr: Text(m.RaftAddr), Api: Text(m.API), Version: Text(m.Version),
		Voter: m.Voter, Leader: m.Leader, Self: m.Self, LastContact: formatDuration(time.Duration(m.LastContact)), LogLag: m.LogLag,
	}
}

// ToMember reads the message for a node of the cluster.
func ToMember(m *txmgrv1.Member) (admin.Member, error) {
	var r fieldReader
	member := r.member(m)
	return member, r.decodeError("member")
}

func (r *fieldReader) member(m *txmgrv1.Member) admin.Member {
	return admin.Member{
		ID: m.GetId(), Name: m.GetName(), RaftAddr: m.GetRaftAddr(), API: m.GetApi(), Version: m.GetVersion(),
		Voter: m.GetVoter(), Leader: m.GetLeader(), Self: m.GetSelf(), LastContact: r.duration("members.heard", m.GetLastContact()), LogLag: m.GetLogLag(),
	}
}

func fromMembers(members []admin.Member) []*txmgrv1.Member {
	ms := make([]*txmgrv1.Member, len(members))
	for n, m := range members {
		ms[n] = FromMember(m)
	}
	return ms
}

func (r *fieldReader) members(ms []*txmgrv1.Member) []admin.Member {
	members := make([]admin.Member, len(ms))
	for n, m := range ms {
		members[n] = r.member(m)
	}
	return members
}

// FromBackup gives the message for the description of a backup.
func FromBackup(b admin.Backup) *txmgrv1.Backup {
	return &txmgrv1.Backup{
		Cluster: Text(b.Cluster), Incarnation: b.Incarnation, Index: b.Index, Term: b.Term, Tick: b.Tick,
		Taken: formatTime(b.Taken), Bytes: b.Bytes, Sha256: Text(b.SHA256),
	}
}

// ToBackup reads the message for the description of a backup.
func ToBackup(m *txmgrv1.Backup) (admin.Backup, error) {
	var r fieldReader
	b := admin.Backup{
		Cluster: m.GetCluster(), Incarnation: m.GetIncarnation(), Index: m.GetIndex(), Term: m.GetTerm(), Tick: m.GetTick(),
		Taken: r.time("backup.taken", m.GetTaken()), Bytes: m.GetBytes(), SHA256: m.GetSha256(),
	}
	return b, r.decodeError("backup")
}
