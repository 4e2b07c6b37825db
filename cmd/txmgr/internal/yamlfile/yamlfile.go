// Package yamlfile reads YAML files that hold one map: the settings of a server, and scripts.
// [Read] reads a file, and [Fields] passes each value to the function for its key. Every error names
// the file and the line, and an unknown key is an error: a misspelt one would have no effect.
package yamlfile

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// MaxBytes is the most bytes of a configuration file.
const MaxBytes = 1 << 20

// Read reads a file that holds one map; nil when it is empty.
func Read(name string) (*yaml.Node, error) {
	data, err := readAtMost(name, MaxBytes)
	if err != nil {
		return nil, &output.Failure{Code: txn.CodeUsage, What: "cannot read " + name, Cause: output.WithoutPath(err), Err: err}
	}
	return Parse(name, data)
}

// readAtMost reads a file, which may be a device or a pipe without an end.
func readAtMost(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return data, err
}

// Parse parses the contents of a file, or of standard input, that name names; nil when it is empty.
func Parse(name string, data []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, &output.Failure{Code: txn.CodeUsage, What: name + " is not YAML", Cause: err.Error(), Err: err}
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// Fields passes the values of a map to the functions for their keys, each key once.
func Fields(name string, n *yaml.Node, known map[string]func(*yaml.Node) error) error {
	keys := slices.Sorted(maps.Keys(known))
	if n.Kind != yaml.MappingNode {
		return output.Usage("", "%s, line %d: want a map with %v", name, n.Line, keys)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, ok := known[key.Value]
		at := fmt.Sprintf("%s, line %d: %s", name, key.Line, key.Value)
		switch {
		case !ok:
			next := output.DidYouMean(key.Value, keys, "")
			if next == "" {
				next = fmt.Sprintf("the keys are %v", keys)
			}
			return output.Usage(next, "%s, line %d: unknown key %q", name, key.Line, key.Value)
		case seen[key.Value]:
			return output.Usage("keep one of the two", "%s is given twice", at)
		}
		seen[key.Value] = true
		if err := read(value); err != nil {
			if errors.As(err, new(*output.Failure)) {
				return err
			}
			return output.Usage("", "%s: %v", at, err)
		}
	}
	return nil
}
