// Package tokensecret makes and recognizes the secrets of tokens. A secret is txm_<id>_<letters>: it
// shows which token it belongs to, and secret scanners find it in source code. Its 32 letters hold 160
// random bits, so a plain hash of it is as good as a slow one.
package tokensecret

import (
	"crypto/sha256"
	"strings"

	"github.com/txmgr/txmgr/internal/random"
)

const (
	prefix   = "txm_"
	idLength = 8
	letters  = 32
	length   = len(prefix) + idLength + 1 + letters
)

// NewID makes an id of a token.
func NewID() string { return random.Letters(idLength) }

// New makes the secret of the token with the id.
func New(id string) string { return prefix + id + "_" + random.Letters(letters) }

// Hash returns what the log knows of a secret; ok is false for what cannot be one.
func Hash(secret string) (hash [sha256.Size]byte, ok bool) {
	if len(secret) != length || !strings.HasPrefix(secret, prefix) {
		return hash, false
	}
	return sha256.Sum256([]byte(secret)), true
}
