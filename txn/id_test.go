package txn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// madeAt is in the ids of this file as 01k9x3v7h2.
var madeAt = time.UnixMilli(1762987449890)

// Ids as they are made now, letter by letter: the time, group 0, and 65 random bits.
func TestNewIDsAreOfGroupZero(t *testing.T) {
	full := [9]byte{255, 255, 255, 255, 255, 255, 255, 255, 255}
	for want, entropy := range map[string][9]byte{
		"01k9x3v7h2" + "000" + "0000000000000": {},
		"01k9x3v7h2" + "000" + "zzzzzzzzzzzzz": full,
		"01k9x3v7h2" + "000" + "g000000000000": {8: 255},
		"01k9x3v7h2" + "000" + "fzzzzzzzzzzzz": {255, 255, 255, 255, 255, 255, 255, 255, 254},
		"01k9x3v7h2" + "000" + "0000000000001": {7: 1},
		"01k9x3v7h2" + "000" + "8000000000000": {128},
	} {
		id, session := txn.NewID(madeAt, entropy), txn.NewSessionID(madeAt, entropy)
		if id.String() != "tx_"+want || session.String() != "ses_"+want || id.Group() != 0 || session.Group() != 0 {
			t.Errorf("%x: %v of group %d, %v of group %d; want %s", entropy, id, id.Group(), session, session.Group(), want)
		}
	}
	farthest := time.UnixMilli(1<<48 - 1)
	if id := txn.NewID(farthest, full); id.Group() != 0 || !id.Time().Equal(farthest) {
		t.Errorf("%v of group %d, made %v", id, id.Group(), id.Time())
	}
}

// Every one of the 65 bits makes another id.
func TestEveryRandomBitCounts(t *testing.T) {
	made := map[txn.ID]int{txn.NewID(madeAt, [9]byte{}): -1}
	for bit := range 65 {
		var entropy [9]byte
		entropy[bit/8] = 1 << (bit % 8)
		id := txn.NewID(madeAt, entropy)
		if other, ok := made[id]; ok {
			t.Errorf("bits %d and %d both make %v", bit, other, id)
		}
		made[id] = bit
	}
}

// Ids of earlier releases and of other makers: any bits are accepted, and come back as they were.
func TestIDsOfAnyGroupAreRead(t *testing.T) {
	for text, want := range map[string]struct {
		bytes txn.ID
		group uint16
	}{
		"01k9x3v7h2000" + "8qf4r6t0bz5n1": {txn.ID{0x01, 0x9a, 0x7a, 0x3d, 0x9e, 0x22, 0x00, 0x00, 0x8b, 0xbc, 0x98, 0x36, 0x80, 0xbf, 0x96, 0xa1}, 0},
		"01k9x3v7h2001" + "0000000000000": {txn.ID{0x01, 0x9a, 0x7a, 0x3d, 0x9e, 0x22, 0x00, 0x02}, 1},
		"01k9x3v7h200g" + "8qf4r6t0bz5n1": {txn.ID{0x01, 0x9a, 0x7a, 0x3d, 0x9e, 0x22, 0x00, 0x20, 0x8b, 0xbc, 0x98, 0x36, 0x80, 0xbf, 0x96, 0xa1}, 16},
		"01k9x3v7h2m8q" + "f4r6t0bz5n1de": {txn.ID{0x01, 0x9a, 0x7a, 0x3d, 0x9e, 0x22, 0xa2, 0x2e, 0xf2, 0x60, 0xda, 0x02, 0xfe, 0x5a, 0x85, 0xae}, 20759},
		"01k9x3v7h2zzz" + "g000000000000": {txn.ID{0x01, 0x9a, 0x7a, 0x3d, 0x9e, 0x22, 0xff, 0xff}, txn.MaxGroup},
		"0000000000" + "zzz0000000000000": {txn.ID{6: 0xff, 7: 0xfe}, txn.MaxGroup},
		"7zzzzzzzzz" + "zzzzzzzzzzzzzzzz": {txn.ID{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, txn.MaxGroup},
	} {
		for _, text := range []string{text, strings.ToUpper(text)} {
			id, err := txn.ParseID("tx_" + text)
			if err != nil || id != want.bytes || id.Group() != want.group {
				t.Errorf("%s: % x of group %d, %v; want % x of group %d", text, id[:], id.Group(), err, want.bytes[:], want.group)
			}
			session, err := txn.ParseSessionID("ses_" + text)
			if err != nil || txn.ID(session) != want.bytes || session.Group() != want.group {
				t.Errorf("session %s: % x of group %d, %v", text, session[:], session.Group(), err)
			}
		}
		// The name at the participant has the id as it is.
		xid := txn.XID("c1", want.bytes, 2)
		cluster, id, branch, ok := txn.ParseXID(xid)
		if xid != "txm_c1_"+text+"_b2" || !ok || cluster != "c1" || id != want.bytes || branch != 2 {
			t.Errorf("%s: %v, %s, %v, %v", xid, id, cluster, branch, ok)
		}
	}
}

// The group is behind the time: ids of all groups sort by the time at which they were made.
func TestIDsOfAllGroupsSortByTime(t *testing.T) {
	early, late := txn.ID{5: 1, 6: 0xff, 7: 0xff}, txn.NewID(time.UnixMilli(2), [9]byte{})
	if early.Compare(late) >= 0 || early.Group() != txn.MaxGroup || late.Group() != 0 {
		t.Errorf("%v, %v: %d", early, late, early.Compare(late))
	}
	if !early.Time().Equal(time.UnixMilli(1)) {
		t.Errorf("made %v", early.Time())
	}
}
