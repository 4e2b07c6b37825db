package forward

import (
	"net/http"
	"strings"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// framing is how the messages of a body are delimited.
type framing int

const (
	unframed framing = iota
	connectFrames
	grpcFrames
	grpcWebFrames
)

func framingOf(contentType string) framing {
	switch {
	case strings.HasPrefix(contentType, "application/connect+"):
		return connectFrames
	case strings.HasPrefix(contentType, "application/grpc-web"):
		return grpcWebFrames
	case strings.HasPrefix(contentType, "application/grpc"):
		return grpcFrames
	default:
		return unframed
	}
}

// endsStream reports whether a frame with these flags is the last one.
func (k framing) endsStream(flags byte) bool {
	return k == connectFrames && flags&0x02 != 0 || k == grpcWebFrames && flags&0x80 != 0
}

// CodeAtEnd reports whether responses in the protocol of this content type carry the code of a
// failure only at their end.
func CodeAtEnd(contentType string) bool {
	k := framingOf(contentType)
	return k == connectFrames || k == grpcFrames
}

// codeOf returns the code of a response.
func codeOf(res *http.Response) txn.Code {
	for _, h := range []http.Header{res.Header, res.Trailer} {
		if c := h.Get(wire.HeaderCode); c != "" {
			return txn.Code(c)
		}
	}
	if res.StatusCode >= http.StatusBadRequest {
		return CodeOfStatus(res.StatusCode)
	}
	return txn.CodeOK
}

// CodeOfStatus returns the code of a response that states none.
func CodeOfStatus(status int) txn.Code {
	switch {
	case status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		return txn.CodeUnavailable
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported:
		return txn.CodeError
	default:
		return txn.CodeUsage
	}
}
