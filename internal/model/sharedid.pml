/* The appointment and a second application, as the code does it. The first begins with branch 1, which is
   appointed. Either branch 1 decides by its one-phase commit; or the first application revokes the
   appointment, waits for the answer and only then passes the id on; the second application enlists
   branch 2, prepares it and votes, and the log decides. Both branches have marker rows.

   Mistakes: MOVED (the log accepts the enlistment of an appointed transaction, and appoints
   the new branch); REVOKED_LATE (the id is passed on before the revocation is answered). */
#define NONE 0
#define WORKING 1
#define PREPARED 2
#define COMMITTED_B 3
#define ROLLED_BACK_B 4
byte w[3];
bool barrier[3];
#define COMMIT 1
#define ROLLBACK 2
#define UNKNOWN 0
#define ACTIVE 1
#define TO_SETTLE 2
#define COMMITTING 3
#define ROLLING_BACK 4
byte tx;
byte appointed;       /* the branch that decides; 0: the log decides by the votes */
bool enlisted2, vote1, vote2;
bool shared;          /* the second application was passed the id */
byte at1, at2, told;
bool m_begin, m_revoke, m_vote1, m_commit, m_enlist2, m_vote2, one_phase;
bool begin_ok, revoke_ok, enlist_ok;

bool not_atomic, told_otherwise, false_heuristic, end_reached;
#ifdef ONLY
#define ALWAYS 0
#else
#define ALWAYS 1
#endif
#ifndef CHECK_not_atomic
#define CHECK_not_atomic ALWAYS
#endif
#ifndef CHECK_told_otherwise
#define CHECK_told_otherwise ALWAYS
#endif
#ifndef CHECK_false_heuristic
#define CHECK_false_heuristic ALWAYS
#endif
#define VIOLATED(property) if :: CHECK_##property -> property = true; assert(!property) :: else fi
#define mixed ((w[1] == COMMITTED_B && w[2] == ROLLED_BACK_B) || (w[1] == ROLLED_BACK_B && w[2] == COMMITTED_B))
#define told_wrong ((told == COMMIT && (w[1] == ROLLED_BACK_B || w[2] == ROLLED_BACK_B)) || (told == ROLLBACK && (w[1] == COMMITTED_B || w[2] == COMMITTED_B)))
active proctype Atomic() { end: atomic { CHECK_not_atomic && mixed -> VIOLATED(not_atomic) } }
active proctype Told() { end: atomic { CHECK_told_otherwise && told_wrong -> VIOLATED(told_otherwise) } }
#ifdef REACH
active proctype Reach() { end: atomic { told == COMMIT && w[1] == COMMITTED_B && w[2] == COMMITTED_B -> end_reached = true; assert(!end_reached) } }
#endif
active proctype Network() {
end:	do
	:: atomic { m_begin && tx == UNKNOWN -> tx = ACTIVE; appointed = 1; begin_ok = true }
	:: atomic { m_revoke && tx == ACTIVE && appointed == 1 -> appointed = 0; revoke_ok = true }
	:: atomic { m_revoke && tx == ACTIVE && appointed == 0 -> revoke_ok = true }
	:: atomic { m_enlist2 && tx == ACTIVE && !enlisted2 ->
#ifdef MOVED
		enlisted2 = true; enlist_ok = true; if :: appointed == 1 -> appointed = 2 :: else fi
#else
		if :: appointed == 0 -> enlisted2 = true; enlist_ok = true :: else fi
#endif
		}
	:: atomic { m_vote1 && tx == ACTIVE && appointed != 1 -> vote1 = true }
	:: atomic { m_vote2 && tx == ACTIVE && enlisted2 && appointed != 2 -> vote2 = true }
	:: atomic { m_commit && tx == ACTIVE && appointed == 0 && vote1 && (vote2 || !enlisted2) -> tx = COMMITTING }
	od
}
active proctype Deadline() {
end:	do :: atomic { tx == ACTIVE -> if :: appointed == 0 -> tx = ROLLING_BACK :: else -> tx = TO_SETTLE fi } od
}
active proctype First() {
end:	do
	:: atomic { at1 == 0 -> w[1] = WORKING; m_begin = true; at1 = 1 }
	:: atomic { at1 == 1 && begin_ok -> at1 = 2 }                    /* does not share */
	:: atomic { at1 == 2 && w[1] == WORKING -> one_phase = true; at1 = 3 }
	:: atomic { at1 == 3 && w[1] == COMMITTED_B -> told = COMMIT; at1 = 9 }
	:: atomic { at1 == 1 && begin_ok -> m_revoke = true; at1 = 4 }   /* shares */
#ifdef REVOKED_LATE
	:: atomic { at1 == 4 -> shared = true; at1 = 5 }
#else
	:: atomic { at1 == 4 && revoke_ok -> shared = true; at1 = 5 }
#endif
	:: atomic { at1 == 5 && w[1] == WORKING && !barrier[1] -> w[1] = PREPARED; m_vote1 = true; at1 = 6 }
	:: atomic { at1 == 6 && (vote2 || !enlist_ok) -> m_commit = true; at1 = 7 }
	:: atomic { at1 == 7 && tx == COMMITTING -> told = COMMIT; at1 = 9 }
	:: atomic { at1 >= 3 && at1 < 9 && tx == ROLLING_BACK -> told = ROLLBACK; at1 = 9 }
	od
}
active proctype Second() {
end:	do
	:: atomic { at2 == 0 && shared -> m_enlist2 = true; at2 = 1 }
	:: atomic { at2 == 0 -> m_enlist2 = true; at2 = 1 }              /* has the id by other ways: the log has to refuse */
	:: atomic { at2 == 1 && enlist_ok && !barrier[2] -> w[2] = WORKING; at2 = 2 }
	:: atomic { at2 == 2 && w[2] == WORKING -> w[2] = PREPARED; m_vote2 = true; at2 = 3 }
	od
}
active proctype Sessions() {
end:	do
	:: atomic { one_phase -> one_phase = false; if :: w[1] == WORKING -> w[1] = COMMITTED_B :: else fi }
	:: atomic { w[1] == WORKING -> w[1] = ROLLED_BACK_B; one_phase = false }
	:: atomic { w[2] == WORKING -> w[2] = ROLLED_BACK_B }
	od
}
inline rollBack(b) { atomic {
	if
	:: w[b] == WORKING || w[b] == PREPARED -> w[b] = ROLLED_BACK_B
	:: w[b] == NONE -> barrier[b] = true
	:: w[b] == ROLLED_BACK_B
	:: w[b] == COMMITTED_B -> VIOLATED(false_heuristic)
	fi }
}
inline commit(b) { atomic { if :: w[b] == PREPARED -> w[b] = COMMITTED_B :: w[b] == COMMITTED_B :: else -> VIOLATED(false_heuristic) fi } }
/* One leader. It settles the branch that the log names, and reports with the name of that branch. */
active proctype Recovery() {
	byte a, r;
end:	do
	:: atomic { tx == TO_SETTLE -> a = appointed };
		atomic { if
		:: w[a] == COMMITTED_B -> r = COMMIT
		:: w[a] == WORKING -> w[a] = ROLLED_BACK_B; barrier[a] = true; r = ROLLBACK; if :: a == 1 -> one_phase = false :: else fi
		:: w[a] == NONE || w[a] == ROLLED_BACK_B -> barrier[a] = true; r = ROLLBACK
		:: w[a] == PREPARED -> r = 0   /* which an appointed branch never is: an operator has to finish it */
		fi };
		atomic { if :: r != 0 && tx == TO_SETTLE && appointed == a -> tx = (r == COMMIT -> COMMITTING : ROLLING_BACK) :: else fi; r = 0; a = 0 }
	:: tx == ACTIVE && appointed != 0 -> atomic { a = appointed }; atomic { r = (w[a] == COMMITTED_B -> COMMIT : 0) };
		atomic { if :: r != 0 && (tx == ACTIVE || tx == TO_SETTLE) && appointed == a -> tx = COMMITTING :: else fi; r = 0; a = 0 }
	:: tx == COMMITTING -> commit(1); if :: enlisted2 -> commit(2) :: else fi
	:: tx == ROLLING_BACK -> rollBack(1); if :: enlisted2 -> rollBack(2) :: else fi
	od
}
#ifdef LIVE
ltl nothing_stays_prepared { (!<>[](w[1] == PREPARED)) && (!<>[](w[2] == PREPARED)) }
#endif
