package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// writeYAML converts the JSON, so that names, forms and order are the same in both.
func writeYAML(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := writeJSON(&b, v, ""); err != nil {
		return err
	}
	dec := json.NewDecoder(&b)
	dec.UseNumber()
	node, err := yamlOf(dec)
	if err != nil {
		return fmt.Errorf("convert JSON to YAML: %w", err)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return err
	}
	return enc.Close()
}

// yamlOf reads the next value.
func yamlOf(dec *json.Decoder) (*yaml.Node, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch t := t.(type) {
	case json.Delim:
		n.Kind = yaml.SequenceNode
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		for dec.More() { // names are values too
			child, err := yamlOf(dec)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle // an empty map or list has no other form
		}
		_, err = dec.Token() // the end
	case string:
		n.Tag, n.Value = "!!str", t
		if strings.ContainsFunc(t, unprintable) {
			n.Style = yaml.DoubleQuotedStyle // a block scalar loses some line breaks
		}
	case json.Number:
		n.Value = t.String()
	case bool:
		n.Value = fmt.Sprint(t)
	case nil:
		n.Value = "null"
	}
	return n, err
}
