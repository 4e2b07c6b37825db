package node

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestAnOldAnswerProvesNothing: only answers to requests that were sent after the
// question count, of voters, and of this term.
func TestAnOldAnswerProvesNothing(t *testing.T) {
	servers := []raft.Server{{ID: "me"}, {ID: "a"}, {ID: "b"}, {ID: "learner", Suffrage: raft.Nonvoter}}
	const before, asked, after = 4, 5, 6
	for _, c := range []struct {
		name string
		say  func(*contacts)
		want bool
	}{
		{"nobody", func(*contacts) {}, false},
		{"one that was sent before", func(c *contacts) { c.note("a", 7, before) }, false},
		{"one that was sent after", func(c *contacts) { c.note("a", 7, asked) }, true},
		{"one that was sent after a later question", func(c *contacts) { c.note("a", 7, after) }, true},
		{"of an earlier term", func(c *contacts) { c.note("a", 6, after) }, false},
		{"a learner's", func(c *contacts) { c.note("learner", 7, after) }, false},
		{"a stranger's", func(c *contacts) { c.note("x", 7, after) }, false},
		{"a late one that was sent before does not undo it", func(c *contacts) { c.note("a", 7, after); c.note("a", 7, before) }, true},
		{"nor one of an earlier term", func(c *contacts) { c.note("a", 7, after); c.note("a", 6, after) }, true},
	} {
		var k contacts
		c.say(&k)
		if got := k.quorum(servers, "me", 7, asked); got != c.want {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
	var alone contacts
	if !alone.quorum(servers[:1], "me", 7, asked) {
		t.Error("one voter alone is a quorum")
	}
}
