package admin

import (
	"fmt"
	"maps"
	"slices"

	"github.com/txmgr/txmgr/txn"
)

// Participant is a registered participant. The registration is replicated; secrets are not part
// of it, only where each node finds them.
type Participant struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // of the driver: postgres, mariadb, web or ledger
	// Settings depend on the kind; see the participant's documentation. At most
	// 16, keys of at most 64 and values of at most 1,024 bytes.
	Settings map[string]string `json:"settings"`
	// CoordinatorPrepares says that the coordinator asks the participant for its vote;
	// otherwise the application prepares and hands the vote in at commit.
	CoordinatorPrepares bool `json:"coordinator_prepares"`
}

// Check reports what is wrong with a registration.
func (p Participant) Check() error {
	if err := txn.CheckParticipantName(p.Name); err != nil {
		return err
	}
	if p.Kind == "" || len(p.Kind) > txn.MaxSettingKey {
		return fmt.Errorf("%w: participant %q: kind %q: want 1 to %d bytes", txn.ErrInvalid, p.Name, clipped(p.Kind), txn.MaxSettingKey)
	}
	if len(p.Settings) > txn.MaxSettings {
		return fmt.Errorf("%w: participant %s: settings: %d entries; at most %d", txn.ErrInvalid, p.Name, len(p.Settings), txn.MaxSettings)
	}
	for _, k := range slices.Sorted(maps.Keys(p.Settings)) { // sorted: the same error at every try
		if k == "" || len(k) > txn.MaxSettingKey || len(p.Settings[k]) > txn.MaxSettingValue {
			return fmt.Errorf("%w: participant %s: settings: %q: want a key of 1 to %d bytes and a value of at most %d", txn.ErrInvalid, p.Name, clipped(k), txn.MaxSettingKey, txn.MaxSettingValue)
		}
	}
	return nil
}

// clipped is a text short enough for an error.
func clipped(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
