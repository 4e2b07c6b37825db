package web

import (
	"errors"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

func TestSettingsAreRefused(t *testing.T) {
	const url = "http://mail.example/txmgr"
	for name, c := range map[string]struct {
		settings map[string]string
		why      string
	}{
		"none":              {nil, "no URL to "},
		"unknown":           {map[string]string{"url": url, "retries": "3"}, `unknown setting "retries"`},
		"one missing":       {map[string]string{"prepare": url, "commit": url}, "no URL to rollback"},
		"base and one":      {map[string]string{"url": url, "commit": url}, "url and commit exclude each other"},
		"scheme":            {map[string]string{"url": "ftp://mail.example"}, "want http or https"},
		"no scheme":         {map[string]string{"url": "mail.example:80"}, "want http or https"},
		"no host":           {map[string]string{"url": "http:///txmgr"}, "has no host"},
		"opaque":            {map[string]string{"url": "http:mail.example"}, "has no host"},
		"password":          {map[string]string{"url": "http://me:s3cret@mail.example"}, "user or a password"},
		"user":              {map[string]string{"url": "http://s3cret@mail.example"}, "user or a password"},
		"query":             {map[string]string{"prepare": url + "?token=s3cret", "commit": url, "rollback": url}, "query or a fragment"},
		"fragment":          {map[string]string{"prepare": url + "#s3cret", "commit": url, "rollback": url}, "query or a fragment"},
		"broken":            {map[string]string{"url": "http://me:s3cret@mail.example:port/%zz"}, "malformed"},
		"list without base": {map[string]string{"prepare": url, "commit": url, "rollback": url, "list": "/prepared"}, "give the whole URL"},
		"list":              {map[string]string{"url": url, "list": "prepared"}, "want http or https"},
		"two secrets":       {map[string]string{"url": url, "secret_file": "/x", "secret_env": "X"}, "exclude each other"},
		"timeout":           {map[string]string{"url": url, "timeout": "5"}, `timeout is "5"`},
		"timeout zero":      {map[string]string{"url": url, "timeout": "0s"}, "want a duration from 1ms"},
		"timeout long":      {map[string]string{"url": url, "timeout": "1h"}, "want a duration from 1ms"},
		"allow":             {map[string]string{"url": url, "allow": "mail.example,"}, `allow: ""`},
		"host not allowed":  {map[string]string{"url": url, "allow": "other.example"}, "host mail.example:80 is not in the setting allow"},
		"port not allowed":  {map[string]string{"url": url, "allow": "mail.example:8080"}, "host mail.example:80 is not in the setting allow"},
		"list not allowed":  {map[string]string{"url": url, "allow": "mail.example", "list": "http://other.example/"}, "host other.example:80"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(c.settings)
			if !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %s", err, c.why)
			}
		})
	}
}

func TestURLs(t *testing.T) {
	r := opened(t, map[string]string{"url": "https://mail.example/txmgr/", "list": "/prepared", "allow": "mail.example:443, 10.0.0.0/8"})
	for got, want := range map[string]string{
		r.prepare.String(): "https://mail.example/txmgr/prepare", r.commit.String(): "https://mail.example/txmgr/commit",
		r.rollback.String(): "https://mail.example/txmgr/rollback", r.list.String(): "https://mail.example/txmgr/prepared",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if n := len(r.urls()); n != 1 {
		t.Errorf("%d hosts", n)
	}
	r = opened(t, map[string]string{"prepare": "http://a/1", "commit": "http://b/2", "rollback": "http://c/3", "list": "http://d/4"})
	if n := len(r.urls()); n != 4 || r.commit.String() != "http://b/2" {
		t.Errorf("%d hosts, %v", n, r.commit)
	}
}
