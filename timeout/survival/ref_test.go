package survival

import "testing"

// A full table has at most as many chunks as entries, and a Ref names every place of each.
func TestRefReachesTheLastEntry(t *testing.T) {
	for _, k := range []uint32{1, MaxEntries - 1, MaxEntries} {
		for place := range uint8(chunkIDs) {
			if gotK, gotPlace := makeRef(k, place).split(); gotK != k || gotPlace != place {
				t.Errorf("chunk %d, place %d: read back as chunk %d, place %d", k, place, gotK, gotPlace)
			}
		}
	}
}

// TestRefHasRoomForNoMore: a table holds as many transactions as a reference can distinguish.
func TestRefHasRoomForNoMore(t *testing.T) {
	if k, _ := makeRef(MaxEntries+1, 0).split(); k == MaxEntries+1 {
		t.Errorf("a reference has room for chunk %d, and a table holds %d transactions at most", k, MaxEntries)
	}
}
