package participants

import (
	"maps"

	"github.com/txmgr/txmgr/txn/admin"
)

// CheckSettings verifies the settings that participants of every kind have.
func CheckSettings(p admin.Participant) error {
	if _, err := quotaOf(p); err != nil {
		return err
	}
	_, _, err := optimizerChoice(p)
	return err
}

// withoutCommonSettings returns the registration without the settings that every kind has.
func withoutCommonSettings(p admin.Participant) admin.Participant {
	for _, key := range []string{QuotaSetting, OptimizerSetting} {
		if _, ok := p.Settings[key]; ok {
			p.Settings = maps.Clone(p.Settings)
			delete(p.Settings, key)
		}
	}
	return p
}
