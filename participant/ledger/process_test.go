package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// helperEnv makes the test program another process that uses the ledger: the
// variable says what to do, the first argument where.
const helperEnv = "TXMGR_LEDGER_HELPER"

func TestMain(m *testing.M) {
	if job, ok := helpers[os.Getenv(helperEnv)]; ok {
		if err := job(New("helper", os.Args[1]), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var helpers = map[string]func(l *Ledger, args []string) error{
	"add":     helpAdd,
	"branch":  helpBranches,
	"limited": helpLimited,
}

func helper(t *testing.T, job, path string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{path}, args...)...)
	cmd.Env = append(os.Environ(), helperEnv+"="+job)
	cmd.Stderr = os.Stderr
	return cmd
}

// helpAdd adds 1 to an account, args[0] times.
func helpAdd(l *Ledger, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for range n {
		if _, err := l.Local(context.Background(), "add shared 1"); err != nil {
			return err
		}
	}
	return nil
}

// TestProcessesShareOneFile: three processes and this one add at the same time,
// and none of them starves.
func TestProcessesShareOneFile(t *testing.T) {
	l, path := newLedger(t)
	const each = 50
	var all []*exec.Cmd
	for range 3 {
		cmd := helper(t, "add", path, strconv.Itoa(each))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	if err := helpAdd(l, []string{strconv.Itoa(each)}); err != nil {
		t.Error(err)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if total, err := l.Total(t.Context()); err != nil || total != 4*each {
		t.Errorf("total %d, %v; want %d", total, err, 4*each)
	}
}

// helpBranches prepares and commits branches for ever, and prints what it knows to be durable:
// "p XID" and "c XID".
func helpBranches(l *Ledger, args []string) error {
	for n := 0; ; n++ {
		xid := fmt.Sprintf("%s%s_%d", txn.ClusterPrefix("test"), args[0], n)
		s := newBranchTx(l.store, xid)
		if _, err := s.do(context.Background(), statement{"add", []string{args[0]}, 1}); err != nil {
			return err
		}
		if vote, err := s.Prepare(context.Background()); vote != txn.VotePrepared {
			return fmt.Errorf("voted %v: %w", vote, err)
		}
		fmt.Println("p", xid)
		if err := s.Commit(context.Background()); err != nil {
			return err
		}
		fmt.Println("c", xid)
	}
}

// TestKilledProcess: whatever a process printed before it was killed is so, and what it left
// prepared can be finished by another.
func TestKilledProcess(t *testing.T) {
	l, path := newLedger(t)
	p := openParticipant(t, path)
	want := map[string]int64{}
	for round := range 5 {
		account := fmt.Sprintf("round%d", round)
		cmd := helper(t, "branch", path, account)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := map[string]string{} // xid -> last word
		lines := bufio.NewScanner(io.LimitReader(out, 1<<20))
		for lines.Scan() {
			word, xid, _ := strings.Cut(lines.Text(), " ")
			said[xid] = word
			if len(said) == 5+round {
				_ = cmd.Process.Kill() // go on reading: it may have said more
			}
		}
		_ = cmd.Wait() // it was killed
		for xid, word := range said {
			b := participant.Branch{XID: xid}
			r, err := p.Commit(t.Context(), b)
			if err != nil || r.Outcome != participant.Committed {
				t.Errorf("%s said %s: %v, %v", xid, word, r, err)
			}
			want[account]++
		}
		left, err := l.Prepared(t.Context())
		if err != nil || len(left) > 1 {
			t.Errorf("left prepared: %v, %v", left, err)
		}
		for _, b := range left { // prepared, but killed before it could say so
			if r, err := p.Rollback(t.Context(), participant.Branch{XID: b.XID}); err != nil || r.Outcome != participant.RolledBack {
				t.Errorf("%s: %v, %v", b.XID, r, err)
			}
		}
	}
	got, err := l.Balances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for account, n := range want {
		if got[account] != n {
			t.Errorf("%s is %d, want %d", account, got[account], n)
		}
	}
}

// helpLimited fills the file until the system refuses to write more of it, and then checks that
// everything is refused, also after the limit is lifted.
func helpLimited(l *Ledger, _ []string) error {
	ctx := context.Background()
	if _, err := l.Local(ctx, "set first 1"); err != nil {
		return err
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	limit := was
	limit.Cur = 256 << 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	var first error
	for n := 0; first == nil; n++ {
		if n == 100 {
			return errors.New("the limit had no effect")
		}
		var many strings.Builder
		for m := range 500 {
			fmt.Fprintf(&many, "add account-with-a-long-name-%d-%d 1;", n, m)
		}
		_, first = l.Local(ctx, many.String())
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	_, again := l.Local(ctx, "add first 1")
	if again == nil || !strings.Contains(again.Error(), "nothing more is done") {
		return fmt.Errorf("after %w: %w", first, again)
	}
	return nil
}

func TestFailedWriteStopsTheStore(t *testing.T) {
	l, path := newLedger(t)
	if err := helper(t, "limited", path).Run(); err != nil {
		t.Error(err)
	}
	if _, err := l.Local(t.Context(), "add first 1"); err != nil {
		t.Errorf("another process: %v", err)
	}
	all, err := l.Balances(t.Context())
	if err != nil || all["first"] != 2 {
		t.Errorf("first is %d, want 2: %v", all["first"], err)
	}
}
