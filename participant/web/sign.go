package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// signedHeaders are the headers that are signed, in this order; a missing one is an empty line.
var signedHeaders = []string{HeaderTransaction, HeaderBranch, HeaderXID, HeaderPhase, HeaderDeadline}

// Limits of a secret, in bytes.
const (
	minSecret = 16
	maxSecret = 4096
)

// sign returns the signature of a request, the value of [HeaderSignature]:
// t=<seconds since 1970>,v1=<hex of the HMAC-SHA256>.
func sign(secret []byte, method, target string, h http.Header, body []byte, now time.Time) string {
	t := strconv.FormatInt(now.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac(secret, method, target, h, body, t))
}

// mac signs lines that end in a line feed: method, request target as sent, the
// signed headers, time, hex of the SHA-256 of the body. No header's value can hold
// a line feed, so no two requests have the same lines.
func mac(secret []byte, method, target string, h http.Header, body []byte, t string) []byte {
	sum := sha256.Sum256(body)
	lines := []string{method, target}
	for _, name := range signedHeaders {
		lines = append(lines, h.Get(name))
	}
	lines = append(lines, t, hex.EncodeToString(sum[:]))
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(strings.Join(lines, "\n") + "\n"))
	return m.Sum(nil)
}

// verify checks a request's signature. Any of the secrets is accepted, so that the two sides can
// replace a secret one after the other.
func verify(secrets [][]byte, r *http.Request, body []byte, now time.Time, tolerance time.Duration) error {
	values := r.Header.Values(HeaderSignature)
	if len(values) != 1 {
		return fmt.Errorf("%d headers %s; want one: register the service with secret_file", len(values), HeaderSignature)
	}
	for _, name := range signedHeaders {
		if n := len(r.Header.Values(name)); n > 1 {
			return fmt.Errorf("%d headers %s; want one", n, name) // only the first is signed
		}
	}
	t, signature, err := parseSignature(values[0])
	if err != nil {
		return err
	}
	if err := verifyMAC(secrets, r, body, t, signature); err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		return errors.New("the time of the signature is out of range")
	}
	if off := now.Sub(time.Unix(seconds, 0)); off > tolerance || off < -tolerance {
		return fmt.Errorf("the request was signed at %d, which is %v off the clock here; at most %v are tolerated: set the clocks", seconds, off.Round(time.Second), tolerance)
	}
	return nil
}

func verifyMAC(secrets [][]byte, r *http.Request, body []byte, t string, signature []byte) error {
	for _, secret := range secrets {
		if hmac.Equal(signature, mac(secret, r.Method, r.RequestURI, r.Header, body, t)) {
			return nil
		}
	}
	return errors.New("the signature is wrong: the secrets differ, or something between changed the request")
}

// parseSignature parses a signature, which has exactly one text form.
func parseSignature(s string) (t string, signature []byte, err error) {
	malformed := fmt.Errorf("%s %q: want t=<seconds>,v1=<64 hex digits>", HeaderSignature, clean(s, 128))
	first, second, ok := strings.Cut(s, ",")
	t, isTime := strings.CutPrefix(first, "t=")
	text, isMAC := strings.CutPrefix(second, "v1=")
	if !ok || !isTime || !isMAC || !digits(t) || len(t) > 20 || len(text) != 2*sha256.Size || strings.ToLower(text) != text {
		return "", nil, malformed
	}
	if signature, err = hex.DecodeString(text); err != nil {
		return "", nil, malformed
	}
	return t, signature, nil
}

// checkSecret checks the length of a secret.
func checkSecret(secret []byte) error {
	if len(secret) < minSecret || len(secret) > maxSecret {
		return fmt.Errorf("the secret has %d bytes; want %d to %d, for example of: openssl rand -hex 32", len(secret), minSecret, maxSecret)
	}
	return nil
}
