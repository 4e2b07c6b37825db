package admin

import "time"

// Backup describes a copy of the whole state.
type Backup struct {
	Cluster     string    `json:"cluster"`
	Incarnation uint64    `json:"incarnation"`
	Index       uint64    `json:"index"` // the log entry up to which it reaches
	Term        uint64    `json:"term"`
	Tick        uint64    `json:"tick"`
	Taken       time.Time `json:"taken"`
	Bytes       int64     `json:"bytes"`
	SHA256      string    `json:"sha256"`
}
