package web

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// Limits at which a health check warns.
const (
	maxClockSkew      = 30 * time.Second
	certExpiryWarning = 14 * 24 * time.Hour
)

// Check implements [participant.Participant]: every host answers, with any status, and the list,
// if there is one, can be read.
func (r *resourceManager) Check(ctx context.Context) (err error) {
	ctx, fail := r.bound(ctx, "check")
	defer fail(&err)
	for _, u := range r.urls() {
		if _, err := r.options(ctx, u); err != nil {
			return err
		}
	}
	if r.list == nil {
		return nil
	}
	if _, err := r.page(ctx, url.Values{"prefix": {r.prefix}, "limit": {"1"}}); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return nil
}

// options sends an OPTIONS request, which changes nothing.
func (r *resourceManager) options(ctx context.Context, u *url.URL) (response, error) {
	return r.send(ctx, call{phase: "check", method: http.MethodOptions, to: u})
}

// CheckHealth implements [participant.HealthChecker].
func (r *resourceManager) CheckHealth(ctx context.Context) (all []participant.Check) {
	for _, u := range r.urls() {
		all = append(all, r.checkHostHealth(ctx, u)...)
	}
	all = append(all, r.checkListHealth(ctx))
	if r.secret == nil {
		all = append(all, participant.Check{
			Level: participant.Warning, Subject: "signature",
			Message: "requests are not signed: any client that reaches the service can commit and roll back its branches",
			Remedy:  "openssl rand -hex 32 > /etc/txmgr/" + r.name + ".secret, on each node and at the service, and register with secret_file",
		})
	}
	return all
}

func (r *resourceManager) checkHostHealth(ctx context.Context, u *url.URL) []participant.Check {
	a, err := func() (_ response, err error) {
		ctx, fail := r.bound(ctx, "examine")
		defer fail(&err)
		return r.options(ctx, u)
	}()
	if err != nil {
		return []participant.Check{{Level: participant.Failure, Subject: "reach " + u.Host, Message: err.Error(), Remedy: "start the service, or correct its URL and the setting allow"}}
	}
	all := []participant.Check{{Level: participant.OK, Subject: "reach " + u.Host, Message: fmt.Sprintf("answers %d to OPTIONS", a.status)}}
	if d, bad := checkClock(a, time.Now()); bad {
		all = append(all, d)
	}
	switch {
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		all = append(all, participant.Check{
			Level: participant.Warning, Subject: "encryption " + u.Host,
			Message: "payloads and answers cross the network in the clear, and an answer can be forged",
			Remedy:  "register an https URL, with ca_file if the certificate is of your own authority",
		})
	case a.raw.TLS != nil && len(a.raw.TLS.PeerCertificates) > 0:
		ends := a.raw.TLS.PeerCertificates[0].NotAfter
		if left := time.Until(ends); left < certExpiryWarning {
			all = append(all, participant.Check{
				Level: participant.Warning, Subject: "certificate " + u.Host,
				Message: fmt.Sprintf("ends in %v, at %s; afterwards no branch here can be finished", left.Round(time.Hour), ends.UTC().Format(time.RFC3339)),
				Remedy:  "renew the certificate of the service",
			})
		}
	}
	return all
}

// checkClock compares the service's clock with this node's: signatures depend on both.
func checkClock(a response, now time.Time) (participant.Check, bool) {
	there, err := http.ParseTime(a.header.Get("Date"))
	off := now.Sub(there).Round(time.Second)
	if err != nil || off.Abs() < maxClockSkew {
		return participant.Check{}, false
	}
	return participant.Check{
		Level: participant.Warning, Subject: "clock",
		Message: fmt.Sprintf("the service's clock is %v off this node's; a signature that is off by more than the service tolerates is refused", off.Abs()),
		Remedy:  "set the clocks, for example by NTP",
	}, true
}

func (r *resourceManager) checkListHealth(ctx context.Context) participant.Check {
	if r.list == nil {
		return participant.Check{
			Level: participant.Warning, Subject: "list",
			Message: "the service has no list: what it prepares after a rollback, or before a coordinator lost its memory, is never found by the sweep",
			Remedy:  "register with list=/prepared if the service uses web.Handler; otherwise let it serve the list that docs/reference/web.md describes",
		}
	}
	ctx, fail := r.bound(ctx, "examine")
	_, err := r.page(ctx, url.Values{"prefix": {r.prefix}, "limit": {"1"}})
	fail(&err)
	if err != nil {
		return participant.Check{Level: participant.Failure, Subject: "list", Message: err.Error(), Remedy: "correct the setting list, or the service; until then the sweep sees nothing here"}
	}
	return participant.Check{Level: participant.OK, Subject: "list", Message: "can be read"}
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}
