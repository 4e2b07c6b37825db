package provision

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/txmgr/txmgr/txn"
)

// addressLine is the beginning of the line with the addresses in a client's environment file.
const addressLine = "export TXMGR_ADDR='"

// addToClients adds the nodes of this run to the environment files of existing clients: a client
// that does not know a new node cannot reach it when the others are down. The rest of these files
// is unchanged.
func (k *provisioner) addToClients() error {
	paths, err := filepath.Glob(k.path("*", "env"))
	if err != nil {
		return fmt.Errorf("%w: the directory %s: %w", txn.ErrInvalid, k.spec.Dir, err)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > maxSettings {
			continue // not a file of this package
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		extended := k.withAddresses(data)
		if bytes.Equal(extended, data) {
			continue
		}
		if err := renameio.WriteFile(path, extended, info.Mode().Perm()); err != nil {
			return err
		}
		k.markChanged(path)
	}
	return nil
}

// withAddresses adds the nodes of this run to an environment file.
func (k *provisioner) withAddresses(env []byte) []byte {
	lines := strings.Split(string(env), "\n")
	for i, line := range lines {
		list, ours := strings.CutPrefix(line, addressLine)
		list, whole := strings.CutSuffix(list, "'")
		if !ours || !whole {
			continue
		}
		urls := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
		for _, n := range k.spec.Nodes {
			if !slices.Contains(urls, n.URL()) {
				urls = append(urls, n.URL())
			}
		}
		lines[i] = addressLine + strings.Join(urls, ",") + "'"
	}
	return []byte(strings.Join(lines, "\n"))
}

// markChanged records that a file was changed.
func (k *provisioner) markChanged(path string) {
	for i, f := range k.files {
		if f.Path == path {
			k.files[i].Changed = true
			return
		}
	}
	k.files = append(k.files, File{Path: path, What: "the environment of client " + filepath.Base(filepath.Dir(path)), Changed: true})
}
