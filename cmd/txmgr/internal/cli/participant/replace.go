package participant

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/txn/admin"
)

// confirmReplace finds out what a registration changes in an existing one, and asks for
// confirmation if that one is healthy: wrong settings make a working participant unavailable to
// every transaction.
func confirmReplace(ctx context.Context, a *cli.App, c *client.Client, p admin.Participant) (changes []string, err error) {
	calling, cancel := context.WithTimeout(ctx, a.RequestTimeout)
	defer cancel()
	all, err := c.Admin().Participants(calling)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(s admin.ParticipantStatus) bool { return s.Name == p.Name && s.Kind == p.Kind })
	if i < 0 {
		return nil, nil // a new one; or of another kind, which the server refuses
	}
	changes = settingChanges(all[i].Settings, p.Settings)
	if len(changes) == 0 || !all[i].Healthy {
		return changes, nil
	}
	return changes, a.Confirm(fmt.Sprintf("Participant %s is registered and healthy. Change its settings: %s?", p.Name, strings.Join(changes, "; ")))
}

// settingChanges describes the changes of settings, in the order of their names.
func settingChanges(old, now map[string]string) []string {
	var all []string
	keys := maps.Clone(old)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, now)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		before, had := old[k]
		after, has := now[k]
		switch {
		case !has:
			all = append(all, fmt.Sprintf("%s removed, was %s", k, redacted(k, before)))
		case !had:
			all = append(all, fmt.Sprintf("%s added: %s", k, redacted(k, after)))
		case before != after && redacted(k, before) == redacted(k, after):
			all = append(all, k+" changed (not shown)")
		case before != after:
			all = append(all, fmt.Sprintf("%s from %s to %s", k, redacted(k, before), redacted(k, after)))
		}
	}
	return all
}

// redacted is the value of a setting, without what may be a secret.
func redacted(key, value string) string {
	if key == "dsn" {
		return "(not shown)"
	}
	if u, err := url.Parse(value); err == nil && u.User != nil {
		value = u.Redacted()
	}
	return fmt.Sprintf("%q", value)
}
