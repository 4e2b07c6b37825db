package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// readScript reads a transaction from a file, or from standard input. An unknown key is an error.
func readScript(a *app, name string) (script, error) {
	var root *yaml.Node
	var err error
	if name == "-" {
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(a.in, maxConfig)); err == nil {
			root, err = parseYAML("standard input", data)
		}
		name = "standard input"
	} else {
		root, err = readYAML(name)
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
	return fields(name, root, map[string]func(*yaml.Node) error{
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
	err := fields(name, item, map[string]func(*yaml.Node) error{
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

// fields passes the values of a map to the functions for their keys, each key once.
func fields(name string, n *yaml.Node, known map[string]func(*yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return output.Usage("", "%s, line %d: want a map with %v", name, n.Line, sortedKeys(known))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, ok := known[key.Value]
		at := fmt.Sprintf("%s, line %d: %s", name, key.Line, key.Value)
		switch {
		case !ok:
			next := output.DidYouMean(key.Value, sortedKeys(known), "")
			if next == "" {
				next = fmt.Sprintf("the keys are %v", sortedKeys(known))
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
