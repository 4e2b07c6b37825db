package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// maxConfig is the most bytes of a configuration file.
const maxConfig = 1 << 20

// resolve sets the flags of the server that are not on the command line: from the environment, or
// else from the file.
func (o *serverOptions) resolve(flags *pflag.FlagSet, env func(string) string) error {
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	vars := serverEnvironment()
	if err := fromEnvironment(flags, env, vars); err != nil {
		return err
	}
	for _, v := range vars {
		given[v.flag] = given[v.flag] || env(v.name) != ""
	}
	if o.config == "" {
		return nil
	}
	return fromFile(flags, o.config, vars, given)
}

// fromFile sets flags that are not given otherwise. An unknown key is an error: a misspelt limit
// would not be enforced.
func fromFile(flags *pflag.FlagSet, name string, vars []variable, given map[string]bool) error {
	root, err := readYAML(name)
	if err != nil || root == nil {
		return err
	}
	known := map[string]func(*yaml.Node) error{}
	for _, v := range vars {
		if v.flag == "config" {
			continue
		}
		known[strings.ReplaceAll(v.flag, "-", "_")] = func(value *yaml.Node) error {
			text, err := flagValue(flags.Lookup(v.flag), value)
			if err != nil || given[v.flag] {
				return err
			}
			return flags.Set(v.flag, relativeToFile(name, v.flag, text))
		}
	}
	return fields(name, root, known)
}

// relativeToFile resolves a relative path in a file against the directory of the file, so that the
// file and what it names can be moved together.
func relativeToFile(file, flag, value string) string {
	switch flag {
	case "data-dir", "address-file", "root-token-file", "tls-cert", "tls-key", "tls-ca", "tls-client-ca", "peer-cert", "peer-key", "peer-ca":
		if value != "" && !filepath.IsAbs(value) {
			return filepath.Join(filepath.Dir(file), value)
		}
	}
	return value
}

// flagValue returns a value as it would be written on the command line. Only a setting with several
// values may be a list.
func flagValue(f *pflag.Flag, value *yaml.Node) (string, error) {
	var several []string
	switch {
	case value.Kind == yaml.ScalarNode:
		return value.Value, nil
	case value.Kind == yaml.SequenceNode && f.Value.Type() == "stringSlice" && value.Decode(&several) == nil:
		return strings.Join(several, ","), nil
	}
	return "", fmt.Errorf("%w: a list or a map is not possible here", txn.ErrInvalid)
}

// readYAML reads a file that holds one map; nil when it is empty.
func readYAML(name string) (*yaml.Node, error) {
	data, err := readAtMost(name, maxConfig)
	if err != nil {
		return nil, &output.Failure{Code: txn.CodeUsage, What: "cannot read " + name, Cause: withoutPath(err), Err: err}
	}
	return parseYAML(name, data)
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

func parseYAML(name string, data []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, &output.Failure{Code: txn.CodeUsage, What: name + " is not YAML", Cause: err.Error(), Err: err}
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// withoutPath removes the file name from an error whose caller names the file.
func withoutPath(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
