package cli

import (
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// TokenVariable holds the secret of a token. There is no flag for it: every user of the machine can
// read command lines.
const TokenVariable = "TXMGR_TOKEN"

// connection is how a coordinator is reached.
type connection struct {
	// Address is that of the coordinator, or those of several of its nodes, separated by commas.
	Address   string
	tokenFile string
	token     string // from the environment; --token-file takes precedence
	caCert    string
	cert, key string
}

func (n *connection) flags(f *pflag.FlagSet) {
	f.StringVar(&n.Address, "address", client.DefaultAddress, "address of the coordinator, or of several of its nodes, separated by commas (TXMGR_ADDR)")
	f.StringVar(&n.tokenFile, "token-file", "", "file with the secret of the token (TXMGR_TOKEN_FILE; TXMGR_TOKEN is the secret itself)")
	f.StringVar(&n.caCert, "cacert", "", "PEM file with the certificates that the coordinator is verified against (TXMGR_CACERT)")
	f.StringVar(&n.cert, "cert", "", "PEM file with the certificate of the client (TXMGR_CERT)")
	f.StringVar(&n.key, "key", "", "PEM file with the key of that certificate (TXMGR_KEY)")
}

// usesTLS reports whether certificates are given. Then an address without a scheme is an https
// address.
func (n *connection) usesTLS() bool { return n.caCert != "" || n.cert != "" }

// loadToken determines the token: --token-file takes precedence over TXMGR_TOKEN, which takes
// precedence over TXMGR_TOKEN_FILE.
func (a *App) loadToken(flags *pflag.FlagSet) {
	if f := flags.Lookup("token-file"); f != nil && f.Changed {
		return
	}
	if a.token = strings.TrimSpace(a.Env(TokenVariable)); a.token != "" {
		a.tokenFile = ""
	}
}

// dial returns a client. It does not connect yet.
func (a *App) dial() (*client.Client, error) {
	address, err := CheckAddress(a.Address, a.usesTLS())
	if err != nil {
		return nil, err
	}
	return a.DialAt(address)
}

// DialAt returns a client for addresses that have been checked.
func (a *App) DialAt(address string) (*client.Client, error) {
	if address == client.DefaultAddress && a.usesTLS() {
		address = strings.Replace(address, "http://", "https://", 1)
	}
	if info, err := os.Stat(a.tokenFile); a.tokenFile != "" && err == nil && info.Mode().Perm()&0o077 != 0 {
		a.Print.Note("other users can read the token: chmod 600 %s", a.tokenFile)
	}
	return client.Open(client.Config{
		Address: address, RequestTimeout: a.RequestTimeout, Unary: true,
		FailFast: true,
		Token:    a.token, TokenFile: a.tokenFile,
		CACertFile: a.caCert, CertFile: a.cert, KeyFile: a.key,
		Log: slog.New(slog.DiscardHandler), // the program reports the errors itself
	})
}

// CheckAddress parses one address, or several separated by commas. The scheme may be left out; it
// is https if certificates are given.
func CheckAddress(list string, secure bool) (string, error) {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	var full []string
	for s := range strings.SplitSeq(list, ",") {
		s = strings.TrimSpace(s)
		if !strings.Contains(s, "://") {
			s = scheme + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", output.Usage("write it like "+client.DefaultAddress, "address %q is not an http address", s)
		}
		full = append(full, s)
	}
	return strings.Join(full, ","), nil
}
