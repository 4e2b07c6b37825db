package dbsettings

import (
	"errors"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// read parses settings, where a connection string that has a password says so.
func read(settings map[string]string) (Settings, error) {
	p := admin.Participant{Name: "bank", Kind: "mariadb", Settings: settings}
	return Read(p, func(dsn string) bool { return strings.Contains(dsn, "password") }, func(place string) bool { return strings.Contains(place, "@") })
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]string
		fence    bool
		markers  string
	}{
		"defaults":     {map[string]string{"dsn": "me@bank"}, true, ""},
		"fence":        {map[string]string{"dsn": "me@bank", "fence": "on"}, true, ""},
		"no fence":     {map[string]string{"dsn": "me@bank", "fence": "off"}, false, ""},
		"marker table": {map[string]string{"dsn": "me@bank", "commit_marker": "off"}, true, "off"},
	} {
		s, err := read(c.settings)
		if err != nil || s.Fence != c.fence || s.Markers != c.markers {
			t.Errorf("%s: %+v, %v", name, s, err)
			continue
		}
		if dsn, err := s.SecretRef.Read(); dsn != "me@bank" || err != nil {
			t.Errorf("%s: connection string %q, %v", name, dsn, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]string
		why      string
	}{
		"none":               {nil, "mariadb bank: want exactly one of the settings dsn_file, dsn_env and dsn"},
		"two sources":        {map[string]string{"dsn": "me@bank", "dsn_env": "X"}, "exactly one"},
		"three sources":      {map[string]string{"dsn": "me@bank", "dsn_env": "X", "dsn_file": "/x"}, "exactly one"},
		"unknown":            {map[string]string{"dsn": "me@bank", "url": "x"}, `mariadb bank: unknown setting "url"`},
		"unknown and long":   {map[string]string{"dsn": "me@bank", strings.Repeat("x", 1000): "x"}, "xxx"},
		"fence":              {map[string]string{"dsn": "me@bank", "fence": "yes"}, `mariadb bank: fence is "yes": want on or off`},
		"password":           {map[string]string{"dsn": "me:password@bank"}, "give dsn_file"},
		"string as file":     {map[string]string{"dsn_file": "me:password@bank"}, "the path of a file"},
		"string as variable": {map[string]string{"dsn_env": "me:password@bank"}, "the name of an environment variable"},
	} {
		_, err := read(c.settings)
		if !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "me:password") || len(err.Error()) > 500 {
			t.Errorf("%s: %v; want %s", name, err, c.why)
		}
	}
}
