package serve

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/yamlfile"
	"github.com/txmgr/txmgr/txn"
)

// resolve sets the flags of the server that are not on the command line: from the environment, or
// else from the file.
func (o *serverOptions) resolve(flags *pflag.FlagSet, env func(string) string) error {
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	vars := Environment()
	if err := cli.FromEnvironment(flags, env, vars); err != nil {
		return err
	}
	for _, v := range vars {
		given[v.Flag] = given[v.Flag] || env(v.Name) != ""
	}
	if o.config == "" {
		return nil
	}
	return fromFile(flags, o.config, vars, given)
}

// fromFile sets flags that are not given otherwise. An unknown key is an error: a misspelt limit
// would not be enforced.
func fromFile(flags *pflag.FlagSet, name string, vars []cli.Variable, given map[string]bool) error {
	root, err := yamlfile.Read(name)
	if err != nil || root == nil {
		return err
	}
	known := map[string]func(*yaml.Node) error{}
	for _, v := range vars {
		if v.Flag == "config" {
			continue
		}
		known[strings.ReplaceAll(v.Flag, "-", "_")] = func(value *yaml.Node) error {
			text, err := flagValue(flags.Lookup(v.Flag), value)
			if err != nil || given[v.Flag] {
				return err
			}
			return flags.Set(v.Flag, relativeToFile(name, v.Flag, text))
		}
	}
	return yamlfile.Fields(name, root, known)
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
