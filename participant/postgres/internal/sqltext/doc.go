// Package sqltext reads and writes the text of PostgreSQL's statements: it finds statements that
// begin or end a transaction ([RejectTxControl]), shortens a statement for the operator without
// its quoted texts ([Summarize]), and quotes a text ([Literal]).
package sqltext
