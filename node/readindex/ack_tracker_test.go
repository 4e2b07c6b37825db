package readindex

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestAnOldAnswerProvesNothing: only voters' answers in this term count, and only those to
// requests that were sent after the round had begun.
func TestAnOldAnswerProvesNothing(t *testing.T) {
	servers := []raft.Server{{ID: "me"}, {ID: "a"}, {ID: "b"}, {ID: "learner", Suffrage: raft.Nonvoter}}
	const before, asked, after = 4, 5, 6
	for _, c := range []struct {
		name string
		say  func(*AckTracker)
		want bool
	}{
		{"nobody", func(*AckTracker) {}, false},
		{"one that was sent before", func(c *AckTracker) { c.Record("a", 7, before) }, false},
		{"one that was sent after", func(c *AckTracker) { c.Record("a", 7, asked) }, true},
		{"one that was sent after a later question", func(c *AckTracker) { c.Record("a", 7, after) }, true},
		{"of an earlier term", func(c *AckTracker) { c.Record("a", 6, after) }, false},
		{"a learner's", func(c *AckTracker) { c.Record("learner", 7, after) }, false},
		{"a stranger's", func(c *AckTracker) { c.Record("x", 7, after) }, false},
		{"a late one that was sent before does not undo it", func(c *AckTracker) { c.Record("a", 7, after); c.Record("a", 7, before) }, true},
		{"nor one of an earlier term", func(c *AckTracker) { c.Record("a", 7, after); c.Record("a", 6, after) }, true},
	} {
		var k AckTracker
		c.say(&k)
		if got := k.quorum(servers, "me", 7, asked); got != c.want {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
	var alone AckTracker
	if !alone.quorum(servers[:1], "me", 7, asked) {
		t.Error("one voter alone is a quorum")
	}
}
