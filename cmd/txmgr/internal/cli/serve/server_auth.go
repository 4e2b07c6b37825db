package serve

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
	f.StringVar(&o.tlsCert, "tls-cert", "", "PEM file with the certificate of the server, which then serves https")
	f.StringVar(&o.tlsKey, "tls-key", "", "PEM file with the key of that certificate")
	f.StringVar(&o.tlsClientCA, "tls-client-ca", "", "PEM file with the certificates that clients are verified against: each client then needs a certificate")
	f.StringVar(&o.tlsCA, "tls-ca", "", "PEM file with the certificates that the servers of other nodes are verified against (default: --tls-client-ca, or those of the system)")
	f.StringVar(&o.rootTokenFile, "root-token-file", "", "file with the root token, which may do everything; enables authentication")
	f.BoolVar(&o.auth, "auth", false, "require a token")
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
