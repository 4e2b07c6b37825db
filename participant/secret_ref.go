package participant

import (
	"fmt"
	"os"
	"strings"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// SecretRef is where each node finds a connection string. A registration is replicated and
// shown, so it names only the place of a connection string that may hold a password.
type SecretRef struct {
	Source string // for display, for example "dsn_file /etc/bank.dsn"
	// Read reads the place anew, since its content may have changed.
	Read func() (string, error)
}

// ReadSecretRef returns the one of the settings dsn, dsn_file and dsn_env that a registration
// must have. holdsPassword reports whether a connection string may hold a password, and
// isConnectionString whether a text is one where its place was expected: neither must get into
// a registration, nor into an error. Errors are [txn.ErrInvalid].
func ReadSecretRef(p admin.Participant, holdsPassword, isConnectionString func(string) bool) (r SecretRef, err error) {
	found := 0
	for _, source := range []struct {
		key, place string
		read       func(string) (string, error)
	}{
		{"dsn", "", func(dsn string) (string, error) { return dsn, nil }},
		{"dsn_file", "the path of a file that holds it", readFile},
		{"dsn_env", "the name of an environment variable that holds it", readVariable},
	} {
		value, given := p.Settings[source.key]
		switch {
		case !given:
			continue
		case source.place == "" && holdsPassword(value):
			return r, fmt.Errorf("%w: %s %s: dsn holds a password (or cannot be read), and settings are replicated and shown; put the connection string into a file on each node and give dsn_file", txn.ErrInvalid, p.Kind, p.Name)
		case source.place != "" && isConnectionString(value):
			return r, fmt.Errorf("%w: %s %s: %s is a connection string (not shown because it may hold a password); want %s", txn.ErrInvalid, p.Kind, p.Name, source.key, source.place)
		}
		found++
		r = SecretRef{Source: "its settings", Read: func() (string, error) { return source.read(value) }}
		if source.place != "" {
			r.Source = source.key + " " + value
		}
	}
	if found != 1 {
		return SecretRef{}, fmt.Errorf("%w: %s %s: want exactly one of the settings dsn_file, dsn_env and dsn", txn.ErrInvalid, p.Kind, p.Name)
	}
	return r, nil
}

func readFile(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}

func readVariable(name string) (string, error) {
	value, found := os.LookupEnv(name)
	if !found {
		return "", fmt.Errorf("environment variable %s is not set", name)
	}
	return value, nil
}
