package node

import (
	"testing"
)

// TestCallDurations: each call to a participant is measured until the participant is removed.
func TestCallDurations(t *testing.T) {
	desks := participantMap{"bank": newFakeParticipant(), "shop": newFakeParticipant()}
	n := open(t, t.TempDir(), with(desks))
	before := n.Durations().Entries.Count
	for range 3 {
		finished(t, n, order(t, n, desks, "bank").ID)
	}
	all := n.Durations().Calls
	if bank := all["bank"]; bank.Count != 3 || bank.Buckets[60] != 3 || bank.Sum < 0 {
		t.Errorf("bank: %+v", bank)
	}
	if shop, ok := all["shop"]; !ok || shop.Count != 0 {
		t.Errorf("shop, which was not called: %+v, %v", shop, ok)
	}
	if e := n.Durations().Entries; e.Count < before+3 || e.Buckets[60] != e.Count {
		t.Errorf("entries: %+v, %d before", e, before)
	}
	if err := n.Admin().RemoveParticipant(t.Context(), "bank", "ann", "moved"); err != nil {
		t.Fatal(err)
	}
	if bank, ok := n.Durations().Calls["bank"]; ok {
		t.Errorf("bank, which is not registered: %+v", bank)
	}
}
