//go:build amd64 && !race

package adaptivestudy

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/internal/adaptivebench"
)

// Other architectures may round differently, and then a run diverges; the race
// detector makes these runs ten times as long.

var (
	update  = flag.Bool("update", false, "write the page of simulated studies")
	studies = flag.Int("adaptivestudy.studies", 1, "how many studies are simulated again for it")
)

const studiesPage = "../../docs/adaptive/studies.md"

const studiesHead = `# Studies of the parameters, simulated

Written by a test of [internal/adaptivestudy](../../internal/adaptivestudy/doc.go), which fails when the code says something else;
what it means is in [the page about the adaptive pool](../adaptive.md#the-third-question-tuning-the-parameters).
Each table is that of ` + "`txmgr bench adaptive --study NAME --simulate`" + `, Prime1m under the varying load, 25 minutes, the mean of three seeds.
`

// TestPageOfStudies compares the published tables with what is simulated: the first of
// them in an ordinary run of the tests, all of them in make sim-adaptive.
func TestPageOfStudies(t *testing.T) {
	published, err := os.ReadFile(studiesPage)
	if err != nil && !*update {
		t.Fatal(err)
	}
	text := studiesHead
	for i, s := range Studies() {
		if i >= *studies && !*update {
			break
		}
		table := tableOf(t, s)
		if !*update && !strings.Contains(string(published), table) {
			t.Errorf("%s has not what is simulated; go test ./internal/adaptivestudy -update writes\n%s", studiesPage, table)
		}
		text += table
	}
	if *update {
		if err := os.WriteFile(studiesPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !strings.HasPrefix(string(published), studiesHead) {
		t.Errorf("%s does not begin with\n%s", studiesPage, studiesHead)
	}
}

// tableOf simulates a study and writes it as it is published.
func tableOf(t *testing.T, s Study) string {
	t.Helper()
	contenders, err := s.Contenders("")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Simulate(t.Context(), s, adaptivebench.Config{
		Apps: []string{"prime1m"}, Contenders: contenders, Users: []int{100}, Loads: []string{adaptivebench.VaryingLoad}, Time: adaptivebench.DefaultTime,
	})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## The %s: %s\n\n", s.Name, s.About)
	b.WriteString("| optimizer | | of best | mean | p99 | mean size | rests at | resizes | needless | idle after | load after |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, x := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s | %.0f %% | %s | %s | %s | %s | %.0f | %.0f | %.0f s | %.0f s |\n",
			x.Optimizer, x.Contender, 100*x.OfBest, adaptivebench.Latency(x.Mean), adaptivebench.Latency(x.P99),
			adaptivebench.Number(x.Size), adaptivebench.RestText(x.Rest), x.Resizes, x.Needless, x.IdleAfter, x.LoadAfter)
	}
	return b.String()
}
