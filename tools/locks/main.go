package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sasha-s/go-deadlock"
)

// product is the module under test, relative to this one.
const product = "../.."

// Its reports are enabled in the packages under test. This program has no locks.
var _ deadlock.Mutex

func main() {
	flag.Parse() // the flags of go test come after --
	if err := run(product, os.Stdout, flag.Args()); err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			os.Exit(exit.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "locks:", err)
		os.Exit(1)
	}
}

// run tests packages of the module in root. out receives the output of go test.
func run(root string, out io.Writer, args []string) error {
	dir, err := os.MkdirTemp("", "txmgr-locks-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	packages, err := list(root)
	if err != nil {
		return err
	}
	overlay := map[string]string{}
	replaced := 0
	for _, p := range packages {
		n, err := p.replaceLocks(dir, overlay)
		if err != nil {
			return err
		}
		replaced += n
	}
	if replaced == 0 {
		return errors.New("no mutex was found, so nothing would be checked")
	}
	fmt.Fprintf(out, "%d mentions of a mutex are checked\n", replaced)
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	overlayFile, modFile := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "go.mod")
	if err := os.WriteFile(overlayFile, text, 0o600); err != nil {
		return err
	}
	if err := writeModule(root, modFile); err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"test", "-overlay", overlayFile, "-modfile", modFile}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, out
	return cmd.Run()
}

// writeModule writes the go.mod and go.sum of the module under test, with the library of locks
// added.
func writeModule(root, name string) error {
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		if file == "go.sum" {
			own, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			text = append(text, own...)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(name), file), text, 0o600); err != nil {
			return err
		}
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not .Main}}-require={{.Path}}@{{.Version}}{{end}}", "all").Output()
	if err != nil {
		return fmt.Errorf("list the modules of the library: %w", err)
	}
	edit := exec.Command("go", append([]string{"mod", "edit"}, append(fields(out), name)...)...)
	if out, err := edit.CombinedOutput(); err != nil {
		return fmt.Errorf("go mod edit: %w: %s", err, out)
	}
	return nil
}
