package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// JSON is a codec of connect for the JSON form of the API: names as in the .proto files,
// fields in the order of those files, all of them present except unset optional ones, 64-bit
// numbers as numbers, no white space. The same message always gives the same bytes.
//
// It reads what protojson reads, but refuses unknown fields: a misspelt "timeot" must not
// begin a transaction with the default timeout.
type JSON struct {
	// ContentSubtype is the name; empty means "json". The codec has to be
	// registered under "json; charset=utf-8" as well, which curl users send.
	ContentSubtype string
}

// Name gives the content subtype.
func (c JSON) Name() string {
	if c.ContentSubtype == "" {
		return "json"
	}
	return c.ContentSubtype
}

// Marshal encodes a protobuf message.
func (c JSON) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend appends an encoded protobuf message to dst.
func (JSON) MarshalAppend(dst []byte, message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", message)
	}
	return appendMessage(dst, m.ProtoReflect())
}

// MarshalStable encodes a protobuf message; the result is always stable.
func (c JSON) MarshalStable(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// IsBinary is false: JSON is text.
func (JSON) IsBinary() bool { return false }

// Unmarshal decodes a protobuf message.
func (JSON) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no protobuf message", message)
	}
	name := m.ProtoReflect().Descriptor().Name()
	if len(data) == 0 {
		return fmt.Errorf("%s: no JSON object; send at least {}", name)
	}
	if err := (protojson.UnmarshalOptions{RecursionLimit: 32}).Unmarshal(data, m); err != nil {
		return fmt.Errorf("%s: %w", name, explain(err, m.ProtoReflect().Descriptor()))
	}
	return nil
}

// explain removes the library's own prefix, whose spacing varies on purpose, and lists the
// known fields if one is unknown.
func explain(err error, m protoreflect.MessageDescriptor) error {
	what := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	if !strings.Contains(what, "unknown field") {
		return errors.New(what)
	}
	var known []string
	for i := range m.Fields().Len() {
		known = append(known, string(m.Fields().Get(i).Name()))
	}
	if len(known) == 0 {
		return fmt.Errorf("%s; there are none", what)
	}
	return fmt.Errorf("%s; there are %s", what, strings.Join(known, ", "))
}

func appendMessage(b []byte, m protoreflect.Message) ([]byte, error) {
	b = append(b, '{')
	fields := m.Descriptor().Fields()
	first := true
	var err error
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendString(b, string(f.Name()))
		b = append(b, ':')
		if b, err = appendField(b, f, m.Get(f)); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendField(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch {
	case f.IsList():
		return appendList(b, f, v.List())
	case f.IsMap():
		return appendMap(b, f, v.Map())
	default:
		return appendValue(b, f, v)
	}
}

func appendList(b []byte, f protoreflect.FieldDescriptor, l protoreflect.List) ([]byte, error) {
	b = append(b, '[')
	var err error
	for i := range l.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, f, l.Get(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendMap writes a map in the order of its keys, which are strings in this API.
func appendMap(b []byte, f protoreflect.FieldDescriptor, m protoreflect.Map) ([]byte, error) {
	keys := make([]string, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k.String())
		return true
	})
	slices.Sort(keys)
	b = append(b, '{')
	var err error
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, k)
		b = append(b, ':')
		if b, err = appendValue(b, f.MapValue(), m.Get(protoreflect.ValueOfString(k).MapKey())); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendValue(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return appendString(b, v.String()), nil
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool()), nil
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case protoreflect.DoubleKind:
		return appendNumber(b, v.Float()), nil
	case protoreflect.BytesKind:
		return appendBytes(b, v.Bytes()), nil
	case protoreflect.MessageKind:
		return appendMessage(b, v.Message())
	default:
		return nil, fmt.Errorf("field %s: kind %v has no JSON form here", f.FullName(), f.Kind())
	}
}

// appendNumber writes a number in the form of encoding/json. A number that is not finite,
// which JSON cannot express, is written as 0.
func appendNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	text, err := json.Marshal(v)
	if err != nil {
		return append(b, '0') // impossible: v is finite
	}
	return append(b, text...)
}

const hex = "0123456789abcdef"

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\t':
			b = append(b, '\\', 't')
		case r < ' ' || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

func appendBytes(b, data []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, data)
	return append(b, '"')
}
