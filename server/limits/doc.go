// Package limits bounds what a server accepts at once: connections ([Connections]), and
// transactions in lists ([Lists]). Each limit counts by itself, and is safe for concurrent use.
//
// What exceeds a limit is refused at once and changes nothing; [RetryAfter] is the time after
// which a client may try again.
package limits

import "time"

// RetryAfter is the time after which a client may retry a call that was shed.
const RetryAfter = time.Second
