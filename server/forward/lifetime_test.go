package forward

import (
	"net/http"
	"testing"
	"time"
)

func TestTimeoutOf(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        time.Duration
		ok          bool
	}{
		{"Connect-Timeout-Ms", "1500", 1500 * time.Millisecond, true},
		{"Connect-Timeout-Ms", "-1", 0, false},
		{"Connect-Timeout-Ms", "9999999999", 0, false},
		{"Grpc-Timeout", "3S", 3 * time.Second, true},
		{"Grpc-Timeout", "250m", 250 * time.Millisecond, true},
		{"Grpc-Timeout", "99999999u", 99999999 * time.Microsecond, true},
		{"Grpc-Timeout", "99999999H", time.Hour, true},
		{"Grpc-Timeout", "999999999S", 0, false},
		{"Grpc-Timeout", "3x", 0, false},
		{"Grpc-Timeout", "S", 0, false},
		{"Grpc-Timeout", "", 0, false},
	} {
		got, ok := timeoutOf(http.Header{c.name: {c.value}})
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %s: %v, %t", c.name, c.value, got, ok)
		}
	}
}
