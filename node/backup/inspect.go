package backup

import (
	"io"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Contents describes what is in a backup.
type Contents struct {
	Transactions int               `json:"transactions"`
	States       map[txn.State]int `json:"states"`
	Heuristics   int               `json:"heuristics"`
	// Participants are the registered participants, in the order of their registration.
	Participants   []Participant `json:"participants"`
	Members        int           `json:"members"`
	Tokens         int           `json:"tokens"`
	Audit          int           `json:"audit"`           // records
	RecoveryPaused bool          `json:"recovery_paused"` // taken of a restored cluster whose recovery was paused
	Release        string        `json:"release"`
}

// Participant is a participant in a backup.
type Participant struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Branches is how many branches there were unfinished when the backup was taken: they
	// may be prepared, or have finished since.
	Branches int `json:"branches"`
}

// Inspect reads a backup to its end, verifies that it is intact, and returns its
// description and contents. It keeps one transaction in memory at a time.
//
// [ErrDamaged]: r is not a backup, or the backup is damaged. [txn.ErrInvalid] alone: a newer
// release wrote it.
func Inspect(r io.Reader) (b admin.Backup, c Contents, err error) {
	in, err := openReader(r)
	if err != nil {
		return b, c, err
	}
	state, txs, err := raftfsm.Stream(in.snapshot)
	if err != nil {
		return b, c, readError(err)
	}
	c = Contents{
		States: make(map[txn.State]int), Members: len(state.Members), Tokens: len(state.Tokens),
		Audit: len(state.Audit), RecoveryPaused: state.RecoveryPaused, Release: in.header.Release,
	}
	open := make(map[string]int)
	for t, err := range txs {
		if err != nil {
			return b, c, readError(err)
		}
		c.count(t, open)
	}
	for _, p := range state.Participants {
		if !p.Removed {
			c.Participants = append(c.Participants, Participant{Name: p.Name, Kind: p.Kind, Branches: open[p.Name]})
		}
	}
	b, err = in.finish()
	return b, c, err
}

func (c *Contents) count(t *machine.Transaction, open map[string]int) {
	c.Transactions++
	c.States[t.State]++
	if t.Heuristic != 0 {
		c.Heuristics++
	}
	for i := range t.Branches {
		if !t.Branches[i].State.Finished() {
			open[t.Branches[i].Participant]++
		}
	}
}
