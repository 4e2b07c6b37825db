package testdb

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrMissing is wrapped by every error about a program that is not installed. The text says what to
// install.
var ErrMissing = errors.New("database server is not installed")

// findPrograms finds a directory with all the programs: first by PATH, then among the directories
// that match the pattern, newest version first.
func findPrograms(pattern, install string, programs ...string) (string, error) {
	var candidates []string
	if p, err := exec.LookPath(programs[0]); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			candidates = append(candidates, filepath.Dir(p))
		}
	}
	packaged, err := filepath.Glob(pattern)
	if err != nil {
		return "", fmt.Errorf("look for %s in %s: %w", programs[0], pattern, err)
	}
	slices.SortFunc(packaged, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range append(candidates, packaged...) {
		if holds(dir, programs) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w: no %q in PATH or %s; install it: %s", ErrMissing, programs, pattern, install)
}

// findProgram finds one program: first by PATH, then in the directories, which the PATH of users
// other than root lacks.
func findProgram(name, install string, dirs ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range dirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: no %q in PATH or %q; install it: %s", ErrMissing, name, dirs, install)
}

func holds(dir string, programs []string) bool {
	for _, p := range programs {
		if _, err := exec.LookPath(filepath.Join(dir, p)); err != nil {
			return false
		}
	}
	return true
}

// version parses the major version in a path like /usr/lib/postgresql/15/bin.
func version(bin string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	if err != nil {
		return 0
	}
	return n
}
