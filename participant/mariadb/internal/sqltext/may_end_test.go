package sqltext

import "testing"

// TestMayEnd: which statements may end a transaction although they are not refused.
func TestMayEnd(t *testing.T) {
	for _, query := range []string{
		"", "SELECT 1", "(SELECT 1)", " /* x */ update t SET s = 'a; b'", "ROLLBACK TO x", "SET @a = 1", "KILL 1",
		"SELECT `a;b` -- ;", "WITH a AS (SELECT 1) SELECT * FROM a", "SELECT 1 -- it's", "SELECT /* don't */ 'a'",
	} {
		if MayEnd(query) {
			t.Errorf("%q cannot", query)
		}
	}
	for _, query := range []string{
		"BEGIN NOT ATOMIC SELECT 1; END", "CALL p()", "EXECUTE s", "EXECUTE IMMEDIATE 'XA END 1'", "SELECT 1; CALL p()", "SELECT 'a'';'; CALL p()",
		"SET STATEMENT max_statement_time = 1 FOR CALL p()", "/*! CALL p() */", "SELECT 1 /*! ; CALL p() */", "IF 1 THEN CALL p(); END IF",
		"SELECT 1 /* don't */; CALL p()", "SELECT 1 -- it's\n; CALL p()", "SELECT 1 # it's\n; CALL p()", "SELECT 'a\\'; CALL p()", "; CALL p()", "\xa0CALL p()",
		"INSERT INTO t VALUES (\"a\\\"; b\");", `SELECT 'a\'; CALL p(); -- '`, // by the mode NO_BACKSLASH_ESCAPES
		`SELECT 'a\'b'; CALL p(); SELECT 'c\'d'`, // by every other mode
		"/*!999999 SELECT */ COMMIT", "SELECT 1 /*M! + 1 */", "SELECT '?'", "SELECT 1 /* ? */", "SELECT 'a",
		"LOAD INDEX INTO CACHE t", // it commits, according to the manual
	} {
		if !MayEnd(query) {
			t.Errorf("%q may", query)
		}
	}
}

// TestMayRunXA: in an XA transaction no other statements matter.
func TestMayRunXA(t *testing.T) {
	for query, want := range map[string]bool{
		"SET STATEMENT innodb_lock_wait_timeout = 0 FOR UPDATE t SET n = 1": false, "BEGIN NOT ATOMIC UPDATE t SET n = 1; COMMIT; END": false,
		"BEGIN NOT ATOMIC xa END 'n'; END": true, "call p()": true, "Execute s": true, "SELECT '?'": true,
	} {
		if MayRunXA(query) != want {
			t.Errorf("%q: want %v", query, want)
		}
	}
}
