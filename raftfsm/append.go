package raftfsm

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

func appendString[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendDuration(dst []byte, d time.Duration) []byte {
	return binary.AppendVarint(dst, int64(d))
}

func appendFlag(dst []byte, f bool) []byte {
	if f {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendLabels(dst []byte, labels []machine.Label) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(labels)))
	for i := range labels {
		dst = appendString(dst, labels[i].Key)
		dst = appendString(dst, labels[i].Value)
	}
	return dst
}

func appendBranch(dst []byte, b *machine.Branch) []byte {
	dst = appendString(dst, b.Participant)
	dst = appendString(dst, b.Payload)
	return appendString(dst, b.SessionRef)
}

func appendBootstrap(dst []byte, c *machine.Bootstrap) []byte {
	dst = appendString(dst, c.Cluster)
	dst = appendDuration(dst, c.Interval)
	dst = appendDuration(dst, c.Retention)
	return binary.AppendUvarint(dst, c.Retain)
}

func appendMember(dst []byte, m *machine.Member) []byte {
	dst = appendString(dst, m.Node)
	dst = appendString(dst, m.Name)
	dst = appendString(dst, m.API)
	return appendString(dst, m.Version)
}

// appendParticipant writes the settings in ascending order of their keys: equal participants have
// equal bytes.
func appendParticipant(dst []byte, p *admin.Participant) []byte {
	dst = appendString(dst, p.Name)
	dst = appendString(dst, p.Kind)
	dst = binary.AppendUvarint(dst, uint64(len(p.Settings)))
	for _, k := range slices.Sorted(maps.Keys(p.Settings)) {
		dst = appendString(dst, k)
		dst = appendString(dst, p.Settings[k])
	}
	return appendFlag(dst, p.CoordinatorPrepares)
}
