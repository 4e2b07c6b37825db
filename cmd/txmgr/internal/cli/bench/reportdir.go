package bench

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/internal/adaptivebench"
)

// reportDir is the directory of a report. It is created before a long measurement, so that a wrong
// name fails at once. Empty means that no report was requested.
type reportDir string

func createReportDir(path string) (reportDir, error) {
	if path == "" {
		return "", nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", output.Usage("name a directory with write permission", "--out: %v", err)
	}
	probe, err := os.CreateTemp(path, ".txmgr-*")
	if err != nil {
		return "", output.Usage("name a directory with write permission", "--out: %v", err)
	}
	_, _ = probe.Close(), os.Remove(probe.Name()) // empty
	return reportDir(path), nil
}

// indexPath is the first page of the report.
func (f reportDir) indexPath() string { return filepath.Join(string(f), "report.html") }

// write writes the files of a report and replaces those of an earlier one.
func (f reportDir) write(r interface {
	Files() ([]adaptivebench.File, error)
},
) error {
	if f == "" {
		return nil
	}
	files, err := r.Files()
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := renameio.WriteFile(filepath.Join(string(f), file.Name), []byte(file.Text), 0o644); err != nil {
			return fmt.Errorf("write the report into %s: %w", string(f), err)
		}
	}
	return nil
}
