package sqltext

import (
	"fmt"
	"strings"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
)

// Literal quotes a text for a statement that takes no parameters, whatever
// standard_conforming_strings says.
func Literal(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("text %q has a zero byte", excerpt.Of(s))
	}
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`), nil
	}
	return quoted, nil
}
