// Package sqltext reads the text of MariaDB's statements: whether one begins or ends a transaction
// and is refused ([RejectTxControl]), and whether one that is not refused may still end it
// ([MayEnd], [MayRunXA]).
package sqltext
