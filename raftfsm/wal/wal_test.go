package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a log and returns what was read of it. The test closes it.
func open(t *testing.T, dir string, o Options) (*Log, []Frame) {
	t.Helper()
	l, all, err := tryOpen(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, all
}

func tryOpen(dir string, o Options) (*Log, []Frame, error) {
	all := []Frame{}
	l, err := Open(dir, o, func(f Frame, _ Position) error {
		f.Body = bytes.Clone(f.Body)
		all = append(all, f)
		return nil
	})
	return l, all, err
}

func add(t *testing.T, l *Log, f Frame) Position {
	t.Helper()
	p, err := l.Append(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func closeLog(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func body(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i)*7 | 1
	}
	return b
}

func same(a, b []Frame) bool {
	return slices.EqualFunc(a, b, func(a, b Frame) bool {
		return a.Kind == b.Kind && a.Commit == b.Commit && a.Index == b.Index && bytes.Equal(a.Body, b.Body)
	})
}

// copyDir copies the files of a log.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func segmentsIn(t *testing.T, dir string) []string {
	t.Helper()
	f, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f.segments
}

// TestModel compares a log with a list of frames, over appends of all sizes, releases and
// reopenings.
func TestModel(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		o := Options{SegmentBytes: 32 << 10}
		l, _ := open(t, dir, o)
		type stored struct {
			Frame
			at Position
		}
		var want []stored
		for i := range 300 {
			switch k := r.IntN(100); {
			case k < 85:
				n := r.IntN(4000)
				if k == 0 {
					n = 64 << 10
				}
				f := Frame{Kind: Entries, Commit: uint64(i), Index: uint64(i), Body: body(n, byte(i))}
				want = append(want, stored{f, add(t, l, f)})
			case k < 92 && len(want) > 0:
				keep := r.IntN(len(want))
				if err := l.Release(want[keep].at); err != nil {
					t.Fatal(err)
				}
				oldest := want[keep].at.seg.number
				want = slices.DeleteFunc(want, func(s stored) bool { return s.at.seg.number < oldest })
			default:
				closeLog(t, l)
				var all []Frame
				l, all = open(t, dir, o)
				got := make([]Frame, len(want))
				for j := range want {
					got[j] = want[j].Frame
				}
				if !same(got, all) {
					t.Fatalf("seed %d, step %d: %d frames, want %d", seed, i, len(all), len(got))
				}
				byIndex := map[uint64]*stored{}
				for j := range want {
					byIndex[want[j].Index] = &want[j]
				}
				closeLog(t, l)
				var err error
				l, err = Open(dir, o, func(f Frame, p Position) error {
					if f.Kind == Entries {
						byIndex[f.Index].at = p
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, s := range want {
			got := make([]byte, len(s.Body))
			if err := s.at.ReadAt(0, got); err != nil || !bytes.Equal(got, s.Body) {
				t.Fatalf("seed %d: frame %d is read otherwise, %v", seed, s.Index, err)
			}
		}
		if n := len(segmentsIn(t, dir)); n > len(want)/4+12 {
			t.Errorf("seed %d: %d segments for %d frames", seed, n, len(want))
		}
		closeLog(t, l)
	}
}

// small makes a log of a few KiB have several segments.
var small = Options{SegmentBytes: 8 << 10, trustCache: true}

// sample writes a log of a few frames in two segments.
func sample(t *testing.T) (dir string, want []Frame) {
	t.Helper()
	dir = t.TempDir()
	l, _ := open(t, dir, small)
	for i, n := range []int{100, int(small.SegmentBytes) - 2000, 1900, 0, 13, 700} {
		f := Frame{Kind: Entries, Commit: uint64(i), Index: uint64(10 + i), Body: body(n, byte(i))}
		want = append(want, f)
		add(t, l, f)
	}
	closeLog(t, l)
	if n := len(segmentsIn(t, dir)); n != 2 {
		t.Fatalf("%d segments", n)
	}
	return dir, want
}

// lastFrame returns where the last frame of the sample begins and ends in its segment.
func lastFrame(want []Frame) (begin, end int64) {
	begin = segmentHeader
	for _, f := range want[2 : len(want)-1] {
		begin += frameBytes(len(f.Body))
	}
	return begin, begin + frameBytes(len(want[len(want)-1].Body))
}

// damage opens the sample after a change of one of its files, which it undoes. It returns whether it was noticed.
func damage(t *testing.T, dir, name string, at int64, was, now []byte, want []Frame) bool {
	t.Helper()
	write(t, name, at, now)
	defer write(t, name, at, was)
	l, all, err := tryOpen(dir, small)
	if err == nil {
		closeLog(t, l)
		if !same(want, all) {
			t.Fatalf("%x instead of %x in byte %d of %s: %d frames instead of %d", now, was, at, filepath.Base(name), len(all), len(want))
		}
		return false
	}
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotLog) && !errors.Is(err, ErrVersion) {
		t.Fatalf("%x instead of %x in byte %d of %s: %v", now, was, at, filepath.Base(name), err)
	}
	return true
}

func write(t *testing.T, name string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(b, at)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestEveryBitFlip: whatever byte of a log has a bit flipped, it opens with all frames, or says that it is damaged.
func TestEveryBitFlip(t *testing.T) {
	dir, want := sample(t)
	found, harmless := 0, 0
	for _, name := range segmentsIn(t, dir) {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for at, b := range file {
			if testing.Short() && at%5 != 0 {
				continue
			}
			if damage(t, dir, name, int64(at), []byte{b}, []byte{b ^ 1<<(at%8)}, want) {
				found++
			} else {
				harmless++
			}
		}
	}
	t.Logf("%d flips found, %d harmless", found, harmless)
	if found < harmless {
		t.Errorf("only %d found", found)
	}
}

// TestFlipInTheLastFrame: a flipped bit there is not taken for a torn write.
func TestFlipInTheLastFrame(t *testing.T) {
	dir, want := sample(t)
	name := segmentsIn(t, dir)[1]
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := lastFrame(want)
	for at := begin; at < end; at++ {
		for bit := range 8 {
			if !damage(t, dir, name, at, file[at:at+1], []byte{file[at] ^ 1<<bit}, want) {
				t.Errorf("bit %d of byte %d: not noticed", bit, at)
			}
		}
	}
}

// TestDamageInTheMiddle: bytes that are anything, as after a sector has failed, are not taken for the end of the log.
func TestDamageInTheMiddle(t *testing.T) {
	dir, want := sample(t)
	name := segmentsIn(t, dir)[1]
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	begin, _ := lastFrame(want)
	for at := int64(segmentHeader); at+16 <= begin; at += 16 {
		garbage := make([]byte, 16)
		for i := range garbage {
			garbage[i] = ^file[at+int64(i)] ^ byte(i)
		}
		if !damage(t, dir, name, at, file[at:at+16], garbage, want) {
			t.Errorf("bytes from %d on: not noticed", at)
		}
	}
}

// TestPowerCut: however much of the last frame is on the disk, in sectors that arrive in any order, the
// log opens with the frames before it, or with all; and goes on.
func TestPowerCut(t *testing.T) {
	dir, want := sample(t)
	name := segmentsIn(t, dir)[1]
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	last, end := lastFrame(want)
	check := func(what string, torn []byte) {
		t.Helper()
		d := copyDir(t, dir)
		if err := os.WriteFile(filepath.Join(d, filepath.Base(name)), torn, 0o600); err != nil {
			t.Fatal(err)
		}
		l, all := open(t, d, small)
		if n := len(all); n != len(want) && n != len(want)-1 {
			t.Fatalf("%s: %d frames of %d", what, n, len(want))
		}
		if !same(want[:len(all)], all) {
			t.Fatalf("%s: a frame is another one", what)
		}
		add(t, l, Frame{Kind: Entries, Index: 99, Body: body(3, 9)})
		closeLog(t, l)
		_, again := open(t, d, small)
		if len(again) != len(all)+1 || again[len(all)].Index != 99 {
			t.Fatalf("%s: %d frames, and %d after one more", what, len(all), len(again))
		}
	}
	for at := last; at < end; at += 3 {
		torn := bytes.Clone(file)
		clear(torn[at:end])
		check(fmt.Sprintf("cut after %d bytes", at-last), torn)
	}
	sectors := (end+511)/512 - last/512
	for mask := range 1 << sectors {
		torn := bytes.Clone(file)
		for i := range sectors {
			if mask>>i&1 == 0 {
				begin := (last/512 + i) * 512
				clear(torn[max(begin, last):min(begin+512, end)])
			}
		}
		check(fmt.Sprintf("sectors %b", mask), torn)
	}
}

// TestTornHeader: a frame of which only the first sector has reached the disk is torn, wherever it is cut, also if what
// is missing of its header is a single bit.
func TestTornHeader(t *testing.T) {
	for _, index := range []uint64{1, 4096, 7} {
		for pad := 0; pad < 512; pad += alignment {
			dir := t.TempDir()
			l, _ := open(t, dir, small)
			add(t, l, Frame{Kind: Entries, Body: body(pad, 1)})
			at := l.at
			add(t, l, Frame{Kind: Entries, Index: index, Body: body(200, 3)})
			end, next := l.at, (at/512+1)*512
			closeLog(t, l)
			if next >= end {
				continue
			}
			write(t, segmentName(dir, 1), next, make([]byte, end-next))
			l, all, err := tryOpen(dir, small)
			if err != nil || len(all) != 1 {
				t.Fatalf("index %d, at %d: %d frames, %v", index, at, len(all), err)
			}
			closeLog(t, l)
		}
	}
}

// TestTornLargeFrame: what is torn does not pass for a flipped bit by chance. The checksum alone would be wrong in one of 500.
func TestTornLargeFrame(t *testing.T) {
	f := Frame{Kind: Entries, Body: body(1<<20, 1)}
	whole, _ := f.encode(nil, newNonce(), segmentHeader, 0)
	nonce := binary.BigEndian.Uint64(whole[24:])
	segment := make([]byte, segmentHeader+len(whole))
	taken := 0
	for cut := 4096; cut < 1<<20; cut += 8192 {
		clear(segment)
		copy(segment[segmentHeader:], whole[:cut])
		d := decode(segment, nonce, segmentHeader)
		if d.state != torn {
			t.Fatalf("cut after %d bytes: %v", cut, d.state)
		}
		// A checksum that a flipped bit would explain, though none is flipped.
		frame := bytes.Clone(segment[segmentHeader:])
		binary.BigEndian.PutUint32(frame, crc32.Checksum(frame[4:], castagnoli)^1<<7)
		if conditionOfFrame(frame, 1<<7) == flipped {
			taken++
		}
	}
	if taken > 0 {
		t.Errorf("%d torn frames were taken for flipped ones", taken)
	}
}

// TestFramesOutOfPlace: an older frame in the place of a later one, segments with each other's names, a segment of
// another log, and a frame of another group are refused.
func TestFramesOutOfPlace(t *testing.T) {
	dir, want := sample(t)
	names := segmentsIn(t, dir)
	file, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	begin, end := lastFrame(want)
	s := segment{}
	if err := s.readHeader(file, small.SegmentBytes); err != nil {
		t.Fatal(err)
	}
	f := Frame{Kind: Entries, Index: 5, Body: body(700, 2)}
	older, _ := f.encode(nil, s.nonce, begin, 12345)
	if !damage(t, dir, names[1], begin, file[begin:end], older, want) {
		t.Error("a frame that does not follow the one before it: not noticed")
	}
	grouped := bytes.Clone(file[begin:end])
	grouped[19] = 7
	binary.BigEndian.PutUint32(grouped[4:], crc32.Checksum(grouped[8:frameHeader], castagnoli))
	binary.BigEndian.PutUint32(grouped, crc32.Checksum(grouped[4:], castagnoli))
	write(t, names[1], begin, grouped)
	if _, _, err := tryOpen(dir, small); !errors.Is(err, ErrVersion) {
		t.Errorf("a frame of another group: %v", err)
	}
	write(t, names[1], begin, file[begin:end])
	s.log++
	write(t, names[1], 0, s.header())
	if _, _, err := tryOpen(dir, small); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a segment of another log: %v", err)
	}
	write(t, names[1], 0, file[:segmentHeader])
	swapped := names[0] + "x"
	if err := errors.Join(os.Rename(names[0], swapped), os.Rename(names[1], names[0]), os.Rename(swapped, names[1])); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tryOpen(dir, small); !errors.Is(err, ErrCorrupt) {
		t.Errorf("segments with each other's names: %v", err)
	}
}

// TestNewerSegment: a segment that a newer program has written is not removed, although no turn refers to it.
func TestNewerSegment(t *testing.T) {
	dir, want := sample(t)
	s := segment{number: 3, nonce: newNonce(), size: small.SegmentBytes}
	b := append(s.header(), make([]byte, small.SegmentBytes-segmentHeader)...)
	binary.BigEndian.PutUint32(b[8:], segmentVersion+1)
	binary.BigEndian.PutUint32(b[40:], crc32.Checksum(b[:40], castagnoli))
	if err := os.WriteFile(segmentName(dir, 3), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tryOpen(dir, small); !errors.Is(err, ErrVersion) || len(segmentsIn(t, dir)) != 3 {
		t.Errorf("%v, of %d frames; %d segments are left", err, len(want), len(segmentsIn(t, dir)))
	}
}

// TestOneFillOnAFullDisk: a file that cannot be filled in advance is not tried again before it is needed.
func TestOneFillOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir, small)
	if err := os.RemoveAll(dir); err != nil { // nothing can be made in it any more
		t.Fatal(err)
	}
	for range 20 {
		l.filler.want(small.SegmentBytes)
		l.filler.done.Wait()
	}
	if l.filler.made > 2 {
		t.Errorf("%d fills", l.filler.made)
	}
}

// TestCutBetweenSegments: a crash while the log goes on in the next segment loses nothing.
func TestCutBetweenSegments(t *testing.T) {
	dir, want := sample(t)
	names := segmentsIn(t, dir)
	file, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	at := int64(segmentHeader) + frameBytes(100) + frameBytes(len(want[1].Body))
	clear(file[at : at+turnBytes])
	if err := os.WriteFile(names[0], file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tryOpen(dir, small); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the turn is gone, and the next segment has frames: %v", err)
	}
	next, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	clear(next[segmentHeader:])
	if err := os.WriteFile(names[1], next, 0o600); err != nil {
		t.Fatal(err)
	}
	l, all := open(t, dir, small)
	if len(all) != 2 {
		t.Errorf("%d frames", len(all))
	}
	add(t, l, want[2])
	closeLog(t, l)
	_, all = open(t, dir, small)
	if !same(want[:3], all) {
		t.Errorf("%d frames, or others", len(all))
	}
}

// TestMissingSegments: each segment that is gone is noticed.
func TestMissingSegments(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir, small)
	for i := range 5 {
		add(t, l, Frame{Kind: Entries, Index: uint64(i), Body: body(5000, byte(i))})
	}
	closeLog(t, l)
	names := segmentsIn(t, dir)
	for _, name := range names {
		d := copyDir(t, dir)
		if err := os.Remove(filepath.Join(d, filepath.Base(name))); err != nil {
			t.Fatal(err)
		}
		if _, _, err := tryOpen(d, small); !errors.Is(err, ErrCorrupt) {
			t.Errorf("without %s: %v", filepath.Base(name), err)
		}
	}
	if _, _, err := tryOpen(t.TempDir(), Options{Exists: true}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("without all: %v", err)
	}
}

// TestForeignFrames: a frame of an earlier use of the file, or of another place, does not count.
func TestForeignFrames(t *testing.T) {
	dir, want := sample(t)
	name := segmentsIn(t, dir)[1]
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	frame := file[segmentHeader : segmentHeader+frameBytes(1900)]
	_, end := lastFrame(want)
	elsewhere := bytes.Clone(file)
	copy(elsewhere[end:], frame)
	earlier := bytes.Clone(file)
	f := Frame{Kind: Entries, Index: 77, Body: body(10, 1)}
	old, _ := f.encode(nil, newNonce(), end, binary.BigEndian.Uint32(file[end-frameBytes(700):]))
	copy(earlier[end:], old)
	for what, b := range map[string][]byte{"of another place": elsewhere, "of an earlier use": earlier} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, all, err := tryOpen(dir, small)
		if err != nil || len(all) != len(want) {
			t.Errorf("a frame %s: %d frames, %v", what, len(all), err)
			continue
		}
		closeLog(t, l)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{200, 4000, 60_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l, err := Open(b.TempDir(), Options{}, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			f := Frame{Kind: Entries, Body: body(n, 1)}
			var p Position
			b.ReportAllocs()
			for b.Loop() {
				if p, err = l.Append(f); err != nil {
					b.Fatal(err)
				}
				if f.Index++; f.Index%5000 == 0 {
					if err := l.Release(p); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
