package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// pages serves a list as a service in another language might.
func pages(answers map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Query().Get("after")]
		if !ok || r.Method != http.MethodGet || r.Header.Get(HeaderPhase) != "list" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		fmt.Fprint(w, text)
	})
}

func TestPrepared(t *testing.T) {
	for name, c := range map[string]struct {
		answers map[string]string
		want    []string
		err     string
	}{
		"empty": {map[string]string{"": `{"branches":[]}`}, nil, ""},
		"pages": {map[string]string{
			"":           `{"branches":[{"xid":"txm_test_a","since":"2026-01-02T03:04:05Z"},{"xid":"txm_test_b","state":"prepared"}],"next":"txm_test_b"}`,
			"txm_test_b": `{"branches":[{"xid":"txm_test_c"}],"next":""}`,
		}, []string{"txm_test_a", "txm_test_b", "txm_test_c"}, ""},
		"others": {map[string]string{
			"": `{"branches":[{"xid":"txm_other_a"},{"xid":"","state":"prepared"},{"xid":"txm_test_x","state":"committed"},{"xid":"txm_test_y"}],"more":1}`,
		}, []string{"txm_test_y"}, ""},
		"turns in a circle": {map[string]string{"": `{"branches":[],"next":"b"}`, "b": `{"branches":[],"next":"b"}`}, nil, "not behind it"},
		"turns back":        {map[string]string{"": `{"branches":[],"next":"b"}`, "b": `{"branches":[],"next":"a"}`}, nil, "not behind it"},
		"no list":           {map[string]string{"": `{}`}, nil, "not what it should be"},
		"null":              {map[string]string{"": `null`}, nil, "not what it should be"},
		"no JSON":           {map[string]string{"": `<html>`}, nil, "not what it should be"},
		"two values":        {map[string]string{"": `{"branches":[]}{}`}, nil, "not what it should be"},
		"number":            {map[string]string{"": `{"branches":[{"xid":1}]}`}, nil, "not what it should be"},
		"date":              {map[string]string{"": `{"branches":[{"xid":"a","since":"today"}]}`}, nil, "not what it should be"},
		"too many":          {map[string]string{"": `{"branches":[` + strings.Repeat(`{"xid":"a"},`, listPage) + `{"xid":"a"}]}`}, nil, "1001 branches"},
		"status":            {nil, nil, "418"},
		"second page fails": {map[string]string{"": `{"branches":[{"xid":"txm_test_a"}],"next":"b"}`}, nil, "418"},
	} {
		t.Run(name, func(t *testing.T) {
			r := serving(t, pages(c.answers), map[string]string{"list": "/prepared"})
			list, err := r.Prepared(t.Context(), r.prefix)
			var got []string
			for _, p := range list {
				got = append(got, p.XID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wantError(t, err, c.err, false)
			if name == "pages" && !list[0].Since.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
				t.Errorf("since %v", list[0].Since)
			}
		})
	}
	if list, err := serving(t, stubService{500, nil, ""}, nil).Prepared(t.Context(), "x"); len(list) != 0 || err != nil {
		t.Errorf("without list: %v, %v", list, err)
	}
}

// TestEndlessListIsCut: branches after the last page that is read wait until the first are
// finished.
func TestEndlessListIsCut(t *testing.T) {
	asked := 0
	r := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		xid := fmt.Sprintf("txm_test_%09d", asked)
		_ = json.NewEncoder(w).Encode(page{Branches: []listedBranch{{XID: xid}}, Next: xid})
	}), map[string]string{"list": "/prepared"})
	list, err := r.Prepared(t.Context(), r.prefix)
	if len(list) != listPages || asked != listPages || err != nil {
		t.Errorf("%d branches in %d pages, %v", len(list), asked, err)
	}
}

// TestHandlerLists: the list of every store, by pages, in the coordinator's order.
func TestHandlerLists(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		r := serving(t, bed.handler(callbacks{}, Options{}), map[string]string{"list": "/prepared"})
		want := map[string]bool{}
		var ended participant.Branch
		for n := range 7 {
			b := newBranch()
			b.ID = txn.BranchID(n + 1)
			b.XID = txn.XID("test", b.TX, b.ID)
			mustVote(t, r, b, txn.VotePrepared)
			want[b.XID] = true
			if n == 3 {
				if _, err := r.Commit(t.Context(), b); err != nil {
					t.Error(err)
				}
				delete(want, b.XID)
				ended = b
			}
		}
		other := opened(t, map[string]string{"url": strings.TrimSuffix(r.prepare.String(), "/prepare")})
		other.prefix = txn.ClusterPrefix("other")
		foreign := newBranch()
		foreign.XID = txn.XID("other", foreign.TX, 1)
		mustVote(t, other, foreign, txn.VotePrepared)

		list, err := r.Prepared(t.Context(), r.prefix)
		check(t, err)
		got := map[string]bool{}
		for _, p := range list {
			got[p.XID] = true
			if age := time.Since(p.Since); age < -time.Second || age > time.Minute {
				t.Errorf("%s is prepared since %v", p.XID, p.Since)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}

		base := strings.TrimSuffix(r.prepare.String(), "/prepare")
		var names []string
		for after := ""; ; {
			status, text := get(t, base+"/prepared?prefix=txm_&limit=2&after="+after)
			p, err := parsePage([]byte(text))
			if status != 200 || err != nil || len(p.Branches) > 2 {
				t.Fatalf("%d %s, %v", status, text, err)
			}
			for _, l := range p.Branches {
				names = append(names, l.XID)
			}
			if after = p.Next; after == "" {
				break
			}
		}
		if len(names) != 7 {
			t.Errorf("by pages: %q", names)
		}
		for i := range names[1:] {
			if names[i] >= names[i+1] {
				t.Errorf("not in order: %q", names)
			}
		}
		for query, want := range map[string]int{"limit=0": 400, "limit=x": 400, "limit=99999999": 200, "xid=nobody": 200} {
			if status, text := get(t, base+"/prepared?"+query); status != want {
				t.Errorf("%s: %d %s", query, status, text)
			}
		}

		report, err := r.Inspect(t.Context(), ended)
		if report.Outcome != participant.Committed || report.Prepared || err != nil {
			t.Errorf("committed: %+v, %v", report, err)
		}
		report, err = r.Inspect(t.Context(), participant.Branch{XID: list[0].XID})
		if !report.Prepared || report.Since.IsZero() || err != nil {
			t.Errorf("prepared: %+v, %v", report, err)
		}
		report, err = r.Inspect(t.Context(), newBranch())
		if report.Outcome != participant.Unknown || err != nil {
			t.Errorf("not there: %+v, %v", report, err)
		}
		if _, err := other.Inspect(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "without the setting list") {
			t.Errorf("without list: %v", err)
		}
	})
	http.DefaultClient.CloseIdleConnections()
}

func mustVote(t testing.TB, r *resourceManager, b participant.Branch, want txn.Vote) {
	t.Helper()
	if vote, detail, err := r.Prepare(t.Context(), b); vote != want || err != nil {
		t.Fatalf("voted %v (%s), %v; want %v", vote, detail, err, want)
	}
}
