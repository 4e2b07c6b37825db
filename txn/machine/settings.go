package machine

import (
	"fmt"
	"slices"
	"strings"
)

// maxChanges bounds what the audit keeps of a change of settings, in bytes.
const maxChanges = 1024

// settingChanges describes, in words, what a registration changes, in the order of the names.
// It is part of the state, so that what a log of this release says never changes.
func settingChanges(kind string, old, now map[string]string) string {
	var keys []string
	for k := range old { //archtest:order sorted below
		keys = append(keys, k)
	}
	for k := range now { //archtest:order sorted below
		if _, had := old[k]; !had {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	all := []string{"kind " + kind}
	for _, k := range keys {
		before, had := old[k]
		after, has := now[k]
		switch {
		case !has:
			all = append(all, k+" removed")
		case !had:
			all = append(all, k+" "+redact(k, after))
		case before != after && (maySecret(k, before) || maySecret(k, after)):
			all = append(all, k+" changed")
		case before != after:
			all = append(all, fmt.Sprintf("%s %s instead of %s", k, redact(k, after), redact(k, before)))
		}
	}
	text := strings.Join(all, ", ")
	if len(text) > maxChanges {
		return strings.ToValidUTF8(text[:maxChanges-3], "") + "..."
	}
	return text
}

// maySecret reports whether a setting may hold a secret: the address of a database, and any
// value that has the form of a user at a host or names a password.
func maySecret(key, value string) bool {
	return key == "dsn" || strings.Contains(value, "@") || strings.Contains(strings.ToLower(value), "password")
}

func redact(key, value string) string {
	if maySecret(key, value) {
		return "(not shown)"
	}
	return value // not quoted: which characters are printable depends on the release of Go
}
