package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Bounds of the setting timeout.
const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = 10 * time.Minute
)

// settings are the parsed settings of a registration.
type settings struct {
	prepare, commit, rollback *url.URL
	list                      *url.URL // nil: the service has no list
	allow                     allowList
	secret                    func() ([]byte, error) // nil: requests are not signed
	caFile                    string
	timeout                   time.Duration
}

const knownSettings = "url, or prepare, commit and rollback; list, allow, secret_file, secret_env, ca_file, timeout"

func readSettings(p admin.Participant) (settings, error) {
	s := settings{timeout: defaultTimeout}
	err := s.read(p.Settings)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return s, fmt.Errorf("%w: web %s: %w", txn.ErrInvalid, p.Name, err)
	}
	return s, nil
}

func (s *settings) read(from map[string]string) (err error) {
	for key, value := range from {
		switch key {
		case "url", "prepare", "commit", "rollback", "list": // together, below
		case "allow":
			s.allow, err = parseAllow(value)
		case "secret_file":
			s.secret = func() ([]byte, error) { return readFile(value, maxSecret) }
		case "secret_env":
			s.secret = func() ([]byte, error) { return readEnv(value) }
		case "ca_file":
			s.caFile = value
		case "timeout":
			s.timeout, err = parseTimeout(value)
		default:
			err = fmt.Errorf("unknown setting %q; known are %s", key, knownSettings)
		}
		if err != nil {
			return err
		}
	}
	if from["secret_file"] != "" && from["secret_env"] != "" {
		return errors.New("secret_file and secret_env exclude each other")
	}
	return s.readURLs(from)
}

func (s *settings) readURLs(from map[string]string) (err error) {
	base := from["url"]
	for phase, to := range map[string]**url.URL{phasePrepare: &s.prepare, phaseCommit: &s.commit, phaseRollback: &s.rollback} {
		text, given := from[phase]
		switch {
		case base != "" && given:
			return fmt.Errorf("url and %s exclude each other", phase)
		case base != "":
			text = strings.TrimSuffix(base, "/") + "/" + phase
		case !given:
			return fmt.Errorf("no URL to %s; want url, or prepare, commit and rollback", phase)
		}
		if *to, err = parseURL(text); err != nil {
			return err
		}
	}
	list := from["list"]
	if strings.HasPrefix(list, "/") {
		if base == "" {
			return errors.New("list is a path, which goes with url; give the whole URL")
		}
		list = strings.TrimSuffix(base, "/") + list
	}
	if list != "" {
		s.list, err = parseURL(list)
	}
	return err
}

// check checks settings that depend on each other.
func (s *settings) check() error {
	for _, u := range s.urls() {
		if err := s.allow.checkHost(u); err != nil {
			return err
		}
	}
	return nil
}

// urls returns the URLs, one for each scheme and host.
func (s *settings) urls() []*url.URL {
	all := []*url.URL{s.prepare, s.commit, s.rollback}
	if s.list != nil {
		all = append(all, s.list)
	}
	seen := map[string]bool{}
	var hosts []*url.URL
	for _, u := range all {
		if !seen[u.Scheme+u.Host] {
			seen[u.Scheme+u.Host] = true
			hosts = append(hosts, u)
		}
	}
	return hosts
}

// parseURL parses a URL. It is not shown if it may hold a secret.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("a URL is malformed (it is not shown because it may hold a password)")
	case u.User != nil:
		return nil, errors.New("a URL holds a user or a password, and settings are replicated and shown; give secret_file, and let the service check signatures")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("a URL has a query or a fragment, which may hold a secret, and settings are replicated and shown; put what the service needs into the path")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("URL %q: want http or https", clean(text, 128))
	case u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("URL %q: has no host", clean(text, 128))
	}
	return u, nil
}

func parseTimeout(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Millisecond || d > maxTimeout {
		return 0, fmt.Errorf("timeout is %q; want a duration from 1ms to %v, for example 5s", clean(value, 64), maxTimeout)
	}
	return d, nil
}

func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return bytes.TrimSpace(b), nil
}

func readEnv(name string) ([]byte, error) {
	value, found := os.LookupEnv(name)
	if !found {
		return nil, fmt.Errorf("environment variable %s is not set", name)
	}
	return []byte(strings.TrimSpace(value)), nil
}
