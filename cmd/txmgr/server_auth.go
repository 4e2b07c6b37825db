package main

import (
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/server"
)

// authOptions configure who may call a server, and how the server authenticates itself.
type authOptions struct {
	tlsCert, tlsKey, tlsClientCA string
	tlsCA                        string
	rootTokenFile                string
	auth                         bool
}

func (o *authOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.tlsCert, "tls-cert", "", "a PEM file with the certificate of the server: it speaks https then")
	f.StringVar(&o.tlsKey, "tls-key", "", "a PEM file with its key")
	f.StringVar(&o.tlsClientCA, "tls-client-ca", "", "a PEM file with the certificates that clients are trusted by: they need one of their own then")
	f.StringVar(&o.tlsCA, "tls-ca", "", "a PEM file with the certificates that the servers of other nodes are trusted by (default: --tls-client-ca, or those of the system)")
	f.StringVar(&o.rootTokenFile, "root-token-file", "", "a file with a token that may do everything: authentication is on then")
	f.BoolVar(&o.auth, "auth", false, "let in only who shows a token")
}

func (o *authOptions) scheme() string {
	if o.tlsCert != "" {
		return "https://"
	}
	return "http://"
}

func (o *authOptions) apply(c *server.Config) {
	c.TLS = server.TLS{CertFile: o.tlsCert, KeyFile: o.tlsKey, ClientCAFile: o.tlsClientCA, CAFile: o.tlsCA}
	c.RootTokenFile, c.Auth = o.rootTokenFile, o.auth
}
