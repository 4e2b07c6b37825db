// Package dbsettings parses the settings of a registration that databases with marker rows have in
// common.
package dbsettings

import (
	"fmt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Settings are the parsed settings of a registration.
type Settings struct {
	SecretRef participant.SecretRef // of the connection string
	Fence     bool
	Markers   string // the name of the marker table, not checked; empty: the default
}

// Read parses the settings of a participant, and reads no connection string. The functions are those
// of [participant.ReadSecretRef]. The error is [txn.ErrInvalid].
func Read(p admin.Participant, holdsPassword, isConnectionString func(string) bool) (s Settings, err error) {
	s = Settings{Fence: true}
	for key, value := range p.Settings {
		switch key {
		case "dsn", "dsn_file", "dsn_env":
		case "fence":
			if value != "on" && value != "off" {
				return s, fmt.Errorf("%w: %s %s: fence is %q: want on or off", txn.ErrInvalid, p.Kind, p.Name, excerpt.Of(value))
			}
			s.Fence = value == "on"
		case "commit_marker":
			s.Markers = value
		default:
			return s, fmt.Errorf("%w: %s %s: unknown setting %q: want one of dsn_file, dsn_env, dsn; and fence, commit_marker", txn.ErrInvalid, p.Kind, p.Name, excerpt.Of(key))
		}
	}
	s.SecretRef, err = participant.ReadSecretRef(p, holdsPassword, isConnectionString)
	return s, err
}
