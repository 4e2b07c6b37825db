package adaptivestudy

import (
	"context"

	"github.com/txmgr/txmgr/internal/adaptivebench"
)

// Measure carries a study out in real time. The contenders of the configuration are replaced by
// the study's. When ctx ends, or an experiment fails, the report has the completed ones, beside
// the error.
func Measure(ctx context.Context, s Study, c adaptivebench.Config) (Report, error) {
	measured, err := adaptivebench.Run(ctx, c)
	r := Report{Report: measured, Study: s.Name, Rows: []Row{}}
	for _, x := range measured.Results {
		r.Rows = append(r.Rows, rowOf(x))
	}
	return r, err
}
