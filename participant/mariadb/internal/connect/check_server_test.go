package connect

import (
	"errors"
	"strings"
	"testing"
)

// TestUnsupportedServers: unsupported servers are recognized by their version and product.
func TestUnsupportedServers(t *testing.T) {
	for version, why := range map[string]string{
		"10.11.19-MariaDB-0+deb12u1":           "",
		"5.5.5-10.5.0-MariaDB":                 "",
		"11.4.2-MariaDB-log":                   "",
		"10.4.34-MariaDB":                      "upgrade to MariaDB 10.5",
		"5.5.5-10.4.34-MariaDB":                "upgrade to MariaDB 10.5",
		"5.5.68-MariaDB":                       "upgrade to MariaDB 10.5",
		"x.y-MariaDB":                          "upgrade to MariaDB 10.5",
		"8.0.36":                               "which is not MariaDB",
		"8.0.36-0ubuntu0.22.04.1 MySQL (very)": "which is not MariaDB",
		"":                                     "which is not MariaDB",
	} {
		err := checkVersion(version)
		if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%q: %v, want %q", version, err, why)
		}
		if u := new(UnsupportedServerError); err != nil && (!errors.As(err, &u) || u.Subject != "version") {
			t.Errorf("%q: %T", version, err)
		}
	}
	for who, want := range map[string]string{"app@%": "'app'@'%'", "o'x@y@10.0.0.1": "'o''x@y'@'10.0.0.1'", "": "CURRENT_USER", "role": "CURRENT_USER"} {
		if got := quoteUser(who); got != want {
			t.Errorf("%s: %s, want %s", who, got, want)
		}
	}
}
