package script

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/yamlfile"
	"github.com/txmgr/txmgr/txn"
)

// readScript reads a transaction from a file, or from standard input. An unknown key is an error.
func readScript(a *cli.App, name string) (script, error) {
	var root *yaml.Node
	var err error
	if name == "-" {
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(a.In, yamlfile.MaxBytes)); err == nil {
			root, err = yamlfile.Parse("standard input", data)
		}
		name = "standard input"
	} else {
		root, err = yamlfile.Read(name)
	}
	if err != nil {
		return script{}, err
	}
	s := script{}
	if root != nil {
		if err := s.read(name, root); err != nil {
			return s, err
		}
	}
	if len(s.steps) == 0 {
		return s, output.Usage("txmgr exec --help shows one", "%s has no steps", name)
	}
	return s, nil
}

func (s *script) read(name string, root *yaml.Node) error {
	return yamlfile.Fields(name, root, map[string]func(*yaml.Node) error{
		"name": func(v *yaml.Node) error { return v.Decode(&s.name) },
		"timeout": func(v *yaml.Node) (err error) {
			if s.timeout, err = time.ParseDuration(v.Value); err == nil && s.timeout <= 0 {
				err = fmt.Errorf("%w: it is not positive", txn.ErrInvalid)
			}
			return err
		},
		"labels": func(v *yaml.Node) error { return v.Decode(&s.labels) },
		"steps": func(v *yaml.Node) error {
			if v.Kind != yaml.SequenceNode {
				return fmt.Errorf("%w: it is not a list", txn.ErrInvalid)
			}
			for _, item := range v.Content {
				if err := s.readStep(name, item); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

func (s *script) readStep(name string, item *yaml.Node) error {
	var st step
	err := yamlfile.Fields(name, item, map[string]func(*yaml.Node) error{
		"on": func(v *yaml.Node) error { return v.Decode(&st.on) },
		"run": func(v *yaml.Node) (err error) {
			st.run, err = statement(v)
			return err
		},
	})
	if err == nil && (st.on == "" || st.run == "") {
		err = output.Usage("write  - on: PARTICIPANT  and under it  run: STATEMENT", "%s, line %d: a step needs on and run", name, item.Line)
	}
	s.steps = append(s.steps, st)
	return err
}

// statement is a text or, for a web service, a map or a list that becomes JSON.
func statement(v *yaml.Node) (string, error) {
	if v.Kind == yaml.ScalarNode {
		var text string
		err := v.Decode(&text)
		return text, err
	}
	var value any
	if err := v.Decode(&value); err != nil {
		return "", err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("%w: it cannot be written as JSON: %w", txn.ErrInvalid, err)
	}
	return string(data), nil
}
