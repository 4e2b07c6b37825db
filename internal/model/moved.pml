/* The appointment moves, as the code does it with Options.LastDecides. Both branches have marker rows. The begin, which
   is not awaited, appoints branch 1, the row of which is written. If the client opens no other branch, it commits that
   one in one phase, as in announced.pml. The enlistment of branch 2, sent when its row is written, revokes the
   appointment of branch 1 and appoints branch 2 in one command, the move; a begin that carries both branches is the
   begin and the move at once. When that is answered, branch 1 prepares. If it is prepared, branch 2 decides by its
   one-phase commit. If it voted read-only, the client revokes the appointment, branch 2 prepares too, and the log
   decides by the votes. What the client did not commit it rolls back, and hands in a no for the branch that it thinks
   appointed, which decides the rollback, also while recovery settles. A sweep that finds branch 1 prepared looks at the
   row of branch 2.

   If branch 2 cannot be opened, it is enlisted nevertheless, which revokes; opened later, it is not appointed any more.

   Variants: CONCURRENT (with a second worker of the leader, instead of the one of a deposed leader), GIVEN_OUT (the
   client revokes also when branch 1 is prepared, as the id is given out meanwhile), END_OF_ANY (the log takes the end
   of an enlisted branch that is not appointed any more; none is reported), NO_READ_ONLY (branch 1 never votes
   read-only).
   Mistakes: MOVE_LATE (the move is taken while branch 1 is to be settled; harmless with NO_READ_ONLY), UNAWAITED
   (prepares before the move is answered), ROW_LATE (the move before the row of branch 2), ALONE_MOVED (branch 1 commits
   in one phase although the move was sent), SETTLES_FIRST (recovery settles by branch 1), BEGIN_APPOINTS,
   MOVE_APPOINTS, MOVE_REVOKES (a repeated begin, or move, appoints or revokes again), MOVE_CLAIMS (the move of a branch
   that was enlisted before without it is answered as if it had appointed), DEADLINE_DECIDES, EARLY_COMMIT (branch 2
   commits before branch 1 has voted), READ_ONLY_COUNTS (branch 2 commits in one phase beside a read-only vote),
   REVOKE_UNAWAITED, LOOK_DECIDES (the sweep takes a missing row for a rollback), NO_AFTER_COMMIT (the client hands in a
   no although it sent the one-phase commit), PRUNE_WHILE_BUSY. */
#include "common.pml"

#define UNKNOWN 0
#define ACTIVE 1
#define TO_SETTLE 2   /* a branch is appointed, and the deadline has passed or a rollback was requested: only its end is accepted */
#define COMMITTING 3
#define COMMITTED 4
#define ROLLING_BACK 5
#define ROLLED_BACK 6
byte tx;
byte decider;         /* the appointed branch; 0: the log decides by the votes */
bool enlisted2, finished[3];
#define enlisted(b) (b == 1 || enlisted2)

#define NO_ROW 0
#define LOCKED 1      /* inserted by the branch, not committed; while it is WORKING or PREPARED */
#define ROW 2         /* committed with the branch */
#define BARRIER 3     /* the branch's insert fails */
byte row[3];
byte busy[3];         /* the leader's calls for a branch, from asking the log until the report is taken */

bool m_begin, m_move, m_revoke, m_commit, m_rollback;
byte m_report;        /* the branch of which the client reports the commit */
bool m_both;          /* and that of branch 1 with it */
byte m_no;            /* the branch for which it hands in a no */
#define READ_ONLY 3   /* an answer */

#define WORK 1
#define END1 2        /* the one-phase commit of branch 1 was sent */
#define MOVE 3
#define VOTES 4
#define END2 5        /* that of branch 2 was sent */
#define FINISH 6
#define REPORT 7
#define REVOKE 8
#define VOTE2 9
#define DECIDE 10
#define ABORT 11
#define WAIT 12
#define DONE 13
#define REOPEN 14     /* branch 2 could not be opened, and is enlisted nevertheless, without being appointed */

/* There are no heuristic outcomes here. */
active proctype Wrong() {
end:	atomic { CHECK_unnoticed && (decision == COMMIT && (w[1] == ROLLED_BACK_B || w[2] == ROLLED_BACK_B) || decision == ROLLBACK && (w[1] == COMMITTED_B || w[2] == COMMITTED_B)) -> VIOLATED(unnoticed) }
}
inline finish() {
	if
	:: finished[1] && (!enlisted2 || finished[2]) ->
		if :: tx == COMMITTING -> tx = COMMITTED :: tx == ROLLING_BACK -> tx = ROLLED_BACK :: else fi
	:: else
	fi
}
inline decideCommit() { REQUIRE(decided_twice, decision != ROLLBACK && told != ROLLBACK); decision = COMMIT; tx = COMMITTING; decider = 0; finish() }
inline decideRollback() { REQUIRE(decided_twice, decision != COMMIT && told != COMMIT); decision = ROLLBACK; tx = ROLLING_BACK; decider = 0; finish() }
inline answerOutcome(place) {
	if
	:: tx == UNKNOWN -> send(place, NOT_FOUND)
	:: tx == COMMITTING || tx == COMMITTED -> send(place, COMMIT)
	:: tx == ROLLING_BACK || tx == ROLLED_BACK -> send(place, ROLLBACK)
	:: else
	fi
}
inline onBegin() {
	if
	:: tx == UNKNOWN && past_mark                                  /* refused, which the client need not learn */
	:: tx == UNKNOWN && !past_mark -> REQUIRE(begun_twice, !begun); begun = true; tx = ACTIVE; decider = 1
#ifdef BEGIN_APPOINTS
	:: tx == ACTIVE -> decider = 1
#endif
	:: else
	fi
}
inline onMove() {
	if
	:: tx == ACTIVE && !enlisted2 -> enlisted2 = true; decider = 2; send(MOVE, OK)
#ifdef MOVE_LATE
	:: tx == TO_SETTLE && !enlisted2 -> tx = ACTIVE; enlisted2 = true; decider = 2; send(MOVE, OK)
#endif
#ifdef MOVE_APPOINTS
	:: tx == ACTIVE && enlisted2 -> decider = 2; send(MOVE, OK)
#else
#ifdef MOVE_REVOKES
	:: tx == ACTIVE && enlisted2 -> decider = 0; send(MOVE, OK)
#else
#ifdef MOVE_CLAIMS
	:: tx == ACTIVE && enlisted2 -> send(MOVE, OK)
#else
	:: tx == ACTIVE && enlisted2 && decider == 2 -> send(MOVE, OK)  /* repeated; otherwise refused, as the branch was enlisted without it */
#endif
#endif
#endif
	:: else
	fi
}
/* The enlistment of branch 2 when it could not be opened, or the revocation when it need not decide. */
inline onRevoke() {
	if
	:: tx == ACTIVE -> enlisted2 = true; decider = 0; send(REOPEN, OK); send(REVOKE, OK)
	:: else
	fi
}
#ifdef END_OF_ANY
#define decides(b) enlisted(b)
#else
#define decides(b) (decider == b)
#endif
/* The end of a branch: that of the appointed one is the decision. All others have voted then. */
inline onEnd(b, end) {
	if
	:: (tx == ACTIVE || tx == TO_SETTLE) && decides(b) && end == COMMIT -> finished[b] = true; decideCommit()
	:: (tx == ACTIVE || tx == TO_SETTLE) && decides(b) && end == ROLLBACK -> finished[b] = true; decideRollback()
	:: (tx == COMMITTING && end == COMMIT) || (tx == ROLLING_BACK && end == ROLLBACK) -> finished[b] = true; finish()
	:: (tx == COMMITTING || tx == COMMITTED) && end == ROLLBACK || (tx == ROLLING_BACK || tx == ROLLED_BACK) && end == COMMIT -> VIOLATED(false_heuristic)
	:: else
	fi
}
inline onNo() { if :: (tx == ACTIVE || tx == TO_SETTLE) && decider == m_no -> finished[m_no] = true; decideRollback() :: else fi }
inline giveUp() {
	if
#ifndef DEADLINE_DECIDES
	:: tx == ACTIVE && decider != 0 -> tx = TO_SETTLE
	:: tx == ACTIVE && decider == 0 -> decideRollback()
#else
	:: tx == ACTIVE -> decideRollback()
#endif
	:: else
	fi
}
active proctype Network() {
end:	do
	:: atomic { m_begin -> onBegin() }
	:: atomic { m_move -> onMove() }
	:: atomic { m_revoke -> onRevoke() }
	:: atomic { m_commit ->
		if
		:: tx == ACTIVE && decider == 0 -> finished[1] = (w[1] == READ_ONLY_B); decideCommit(); answerOutcome(DECIDE)
		:: tx == ACTIVE && decider != 0 || tx == TO_SETTLE -> send(DECIDE, REFUSED)
		:: else -> answerOutcome(DECIDE)
		fi }
	:: atomic { m_report != 0 -> onEnd(m_report, COMMIT); if :: m_both && tx == COMMITTING -> finished[1] = true; finish() :: else fi }
	:: atomic { m_no != 0 -> onNo() }
	:: atomic { m_rollback -> giveUp(); answerOutcome(WAIT) }      /* the client asks again and again */
	od
}
active proctype Time() {
end:	do
	:: atomic { tx == ACTIVE -> giveUp() }
	HORIZON_PASSES
	:: atomic { (tx == COMMITTED || tx == ROLLED_BACK) && past_mark -> forgotten = (tx == COMMITTED -> COMMIT : ROLLBACK);
		tx = UNKNOWN; enlisted2 = false; finished[1] = false; finished[2] = false }
	od
}

inline endBranch(b, how) { w[b] = how; row[b] = (how == COMMITTED_B -> ROW : NO_ROW) }
inline reply_(b, place, value) { if :: at == place -> answer[b] = value :: true fi }
proctype Session(byte b) {
end:	do
	:: atomic { request[b] == Q_ONE_PHASE -> request[b] = 0;
		if
		:: w[b] == WORKING -> if
			:: endBranch(b, COMMITTED_B); reply_(b, (b == 1 -> END1 : END2), YES)
			:: endBranch(b, ROLLED_BACK_B); reply_(b, (b == 1 -> END1 : END2), NO)
			fi
		:: else
		fi }
	:: atomic { request[b] == Q_PREPARE -> request[b] = 0;
		if
		:: w[b] == WORKING -> if
			:: w[b] = PREPARED; reply_(b, (b == 1 -> VOTES : VOTE2), YES)
#ifndef NO_READ_ONLY
			:: b == 1 -> endBranch(b, READ_ONLY_B); reply_(b, VOTES, READ_ONLY)
#endif
			:: endBranch(b, ROLLED_BACK_B)
			fi
		:: else
		fi }
	:: atomic { request[b] == Q_COMMIT -> request[b] = 0; if :: w[b] == PREPARED -> endBranch(b, COMMITTED_B) :: else fi }
	:: atomic { request[b] == Q_ROLLBACK -> request[b] = 0; if :: w[b] == WORKING || w[b] == PREPARED -> endBranch(b, ROLLED_BACK_B) :: else fi }
	:: atomic { w[b] == WORKING && !hung -> endBranch(b, ROLLED_BACK_B); request[b] = 0 } /* a client that hangs keeps its sessions */
	:: atomic { request[b] != 0 && w[b] != WORKING && w[b] != PREPARED -> request[b] = 0 }
	od
}
#define startable(b) (w[b] == NONE && row[b] == NO_ROW)   /* otherwise the insert is refused */
#ifdef UNAWAITED
#define moved true
#else
#define moved (reply == OK)
#endif
#ifdef REVOKE_UNAWAITED
#define revoked true
#else
#define revoked (reply == OK)
#endif
#ifdef ROW_LATE
#define rowSeen true
#else
#define rowSeen (w[2] != NONE)
#endif
inline stop(b) { if :: request[b] == 0 && (w[b] == WORKING || w[b] == PREPARED) -> request[b] = Q_ROLLBACK :: else fi }
active proctype Client() {
end:	do
	CLIENT_MAY_STOP
	:: atomic { alive && at == 0 && startable(1) -> at = WORK; w[1] = WORKING; row[1] = LOCKED }
	:: atomic { alive && at == WORK && !m_begin -> m_begin = true }
	:: atomic { alive && at == WORK && m_begin && w[2] == NONE -> at = END1; request[1] = Q_ONE_PHASE }
	:: atomic { alive && at == WORK && m_begin && w[2] == NONE -> at = REOPEN; m_revoke = true }
	:: atomic { alive && at == REOPEN && startable(2) && w[2] == NONE -> w[2] = WORKING; row[2] = LOCKED }
	:: atomic { alive && at == REOPEN && reply == OK && w[2] != NONE -> at = MOVE; reply = 0; m_move = true }
#ifdef ROW_LATE
	:: atomic { alive && at == VOTES && startable(2) -> w[2] = WORKING; row[2] = LOCKED }
#else
	:: atomic { alive && at == WORK && startable(2) -> w[2] = WORKING; row[2] = LOCKED }
#endif
	:: atomic { alive && at == WORK && m_begin && rowSeen -> at = MOVE; m_move = true }
#ifdef ALONE_MOVED
	:: atomic { alive && at == MOVE -> at = END1; reply = 0; request[1] = Q_ONE_PHASE }
#endif
	:: atomic { alive && at == MOVE && moved -> at = VOTES; reply = 0; request[1] = Q_PREPARE }
#ifdef EARLY_COMMIT
	:: atomic { alive && at == VOTES && w[2] != NONE -> at = END2; request[2] = Q_ONE_PHASE }
#endif
	:: atomic { alive && at == VOTES && answer[1] == YES && w[2] != NONE -> at = END2; answer[1] = 0; request[2] = Q_ONE_PHASE }
#ifdef GIVEN_OUT
	:: atomic { alive && at == VOTES && answer[1] == YES -> at = REVOKE; answer[1] = 0; m_revoke = true }
#endif
	:: atomic { alive && at == VOTES && answer[1] == READ_ONLY -> answer[1] = 0;
#ifdef READ_ONLY_COUNTS
		at = END2; request[2] = Q_ONE_PHASE
#else
		at = REVOKE; m_revoke = true
#endif
		}
	:: atomic { alive && at == REVOKE && revoked -> at = VOTE2; reply = 0; request[2] = Q_PREPARE }
	:: atomic { alive && at == VOTE2 && answer[2] == YES -> at = DECIDE; answer[2] = 0; m_commit = true }
	:: atomic { alive && at == DECIDE && reply == COMMIT -> at = DONE; told = COMMIT; reply = 0; request[2] = Q_COMMIT;
		if :: w[1] == PREPARED -> request[1] = Q_COMMIT :: else fi }
	:: atomic { alive && at == DECIDE && reply == ROLLBACK -> at = DONE; told = ROLLBACK; reply = 0; stop(1); stop(2) }
	:: atomic { alive && at == DECIDE -> at = WAIT; reply = 0; m_rollback = true }
	:: atomic { alive && at == END1 && answer[1] == YES -> at = DONE; answer[1] = 0; told = COMMIT; m_report = 1 }
	:: atomic { alive && at == END2 && answer[2] == YES -> at = FINISH; answer[2] = 0; told = COMMIT }
	:: atomic { alive && (at == END1 && answer[1] == NO || at == END2 && answer[2] == NO) -> at = ABORT; answer[1] = 0; answer[2] = 0 } /* the server refused: it did not commit */
	:: atomic { alive && (at == END1 || at == END2) -> answer[1] = 0; answer[2] = 0; m_rollback = true; /* in doubt: the log settles, and the caller waits */
#ifdef NO_AFTER_COMMIT
		m_no = (at == END1 -> 1 : 2);
#endif
		at = WAIT }
	:: atomic { alive && at == FINISH -> at = REPORT; request[1] = Q_COMMIT }
	:: atomic { alive && at == REPORT -> at = DONE; m_both = (w[1] == COMMITTED_B); m_report = 2 }
	:: atomic { alive && (at == WORK || at == REOPEN || at == MOVE || at == VOTES || at == REVOKE || at == VOTE2) -> at = ABORT; reply = 0; answer[1] = 0; answer[2] = 0 }
	:: atomic { alive && at == ABORT -> at = DONE; told = ROLLBACK; m_rollback = true; stop(1); stop(2);
		m_no = (m_move -> 2 : 1) }
	:: atomic { alive && at == WAIT && reply != 0 -> at = DONE;
		if :: reply == COMMIT -> told = COMMIT :: reply == ROLLBACK -> told = ROLLBACK :: else fi; reply = 0 }
	od
}

/* The leader; and a worker of a deposed one, which does one round at any time after it has asked the log and reports to no
   log, or with CONCURRENT a second worker of the leader with one round. */
#define LEADER 0
#define DEPOSED 1
#define SECOND 2
#define deposed (role == DEPOSED)
/* Finds out, or causes, that branch b is rolled back: one attempt. end: 0 is another attempt. */
inline barrier() {
	atomic { if :: row[b] == ROW -> end_ = COMMIT :: row[b] == BARRIER -> end_ = ROLLBACK :: else -> end_ = 0 fi };
	if
	:: end_ == 0 && row[b] == LOCKED -> atomic { if
		:: w[b] == WORKING -> endBranch(b, ROLLED_BACK_B); request[b] = 0
		:: w[b] == PREPARED && todo == ROLLING_BACK -> endBranch(b, ROLLED_BACK_B)
		:: else                                                     /* prepared while it is appointed, which it never is: left */
		fi }
	:: end_ == 0 && row[b] != LOCKED -> atomic { if
		:: row[b] == NO_ROW -> row[b] = BARRIER; end_ = ROLLBACK
		:: row[b] == BARRIER -> end_ = ROLLBACK
		:: row[b] == ROW -> end_ = COMMIT
		:: row[b] == LOCKED
		fi }
	:: end_ != 0
	fi
}
#ifdef SETTLES_FIRST
#define settles(b) (b == 1)
#else
#define settles(b) (decider == b)
#endif
inline drive() {
	atomic { if :: tx == TO_SETTLE && settles(b) || (tx == COMMITTING || tx == ROLLING_BACK) && enlisted(b) && !finished[b] -> todo = tx :: else fi;
		if :: todo != 0 && !deposed -> busy[b]++ :: else fi };
	if
	:: todo == COMMITTING -> atomic { if
		:: w[b] == PREPARED -> endBranch(b, COMMITTED_B); end_ = COMMIT
		:: w[b] != PREPARED && row[b] == ROW -> end_ = COMMIT
		:: else -> if :: !deposed -> VIOLATED(false_heuristic) :: else fi
		fi }
	:: todo == ROLLING_BACK || todo == TO_SETTLE -> barrier()
	:: todo == 0
	fi;
	atomic { if :: end_ != 0 && !deposed && tx != UNKNOWN -> onEnd(b, end_) :: else LOST fi;
		if :: todo != 0 && !deposed -> busy[b]-- :: else fi }
}
/* List, ask the log, list again, act. Of a branch that waits for an appointed one it looks at the row of that one,
   fences nothing, and does not count as busy. */
inline sweep() {
	listed = (w[b] == PREPARED);
	if :: listed -> atomic { if
		:: tx == UNKNOWN -> todo = UNKNOWN
		:: tx == ACTIVE && decider != 0 -> todo = ACTIVE; d = decider
		:: (tx == COMMITTING || tx == COMMITTED) && enlisted(b) && finished[b] -> todo = COMMITTING
		:: (tx == ROLLING_BACK || tx == ROLLED_BACK) && (!enlisted(b) || finished[b]) -> todo = ROLLING_BACK
		:: else -> listed = false
		fi }
	:: else
	fi;
	if :: listed -> listed = (w[b] == PREPARED) :: else fi;
	if
	:: listed && todo == ACTIVE ->
#ifdef LOOK_DECIDES
		atomic { end_ = (row[d] == ROW -> COMMIT : ROLLBACK) };
#else
		atomic { end_ = (row[d] == ROW -> COMMIT : 0) };
#endif
		atomic { if :: end_ != 0 && !deposed && tx != UNKNOWN -> onEnd(d, end_) :: else LOST fi }
	:: else -> atomic { if
		:: listed && w[b] == PREPARED && todo == COMMITTING -> endBranch(b, COMMITTED_B)
		:: listed && w[b] == PREPARED && todo != COMMITTING -> REQUIRE(commit_swept, todo != UNKNOWN || decision != COMMIT); endBranch(b, ROLLED_BACK_B)
		:: else
		fi }
	fi
}
inline prune() {      /* see the row, ask the log, ask whether a call is under way, remove */
	listed = (row[b] == ROW || row[b] == BARRIER);
	if :: listed -> atomic { if :: tx == COMMITTED || tx == ROLLED_BACK || tx == UNKNOWN && past_mark :: else -> listed = false fi } :: else fi;
#ifndef PRUNE_WHILE_BUSY
	if :: listed && busy[b] > 0 -> listed = false :: else fi;
#endif
	atomic { if :: listed && (row[b] == ROW || row[b] == BARRIER) -> row[b] = NO_ROW :: else fi }
}
proctype Recovery(byte role) {
	byte b, d, end_, todo, job;
	bool listed;
end:	do
	:: true ->
#ifdef LIVE
		job = (job + 1) % 6; b = job % 2 + 1;
#else
		if :: job = 0 :: job = 2 :: !deposed -> job = 4 fi; if :: b = 1 :: b = 2 fi;
#endif
		if
		:: job / 2 == 0 -> drive()
		:: job / 2 == 1 -> sweep()
		:: job / 2 == 2 -> prune()
		fi;
		atomic { b = 0; d = 0; end_ = 0; todo = 0; listed = false;
#ifndef LIVE
			job = 0;
#endif
			if :: role != LEADER -> break :: else fi }
	od
}
init { atomic { run Session(1); run Session(2); run Recovery(LEADER);
#ifdef CONCURRENT
	run Recovery(SECOND)
#else
#ifndef LIVE
	run Recovery(DEPOSED)
#endif
#endif
	} }
#ifdef REACH_END
active proctype Reached() {
#if REACH_END == 1     /* branch 1 alone */
end:	atomic { told == COMMIT && forgotten == COMMIT && w[1] == COMMITTED_B && w[2] == NONE && row[1] == NO_ROW -> end_reached = true; assert(!end_reached) }
#endif
#if REACH_END == 2     /* with a read-only vote */
end:	atomic { told == COMMIT && forgotten == COMMIT && w[1] == READ_ONLY_B && w[2] == COMMITTED_B -> end_reached = true; assert(!end_reached) }
#endif
#if REACH_END == 3     /* by the look, and then by recovery alone: the client has reported nothing */
end:	atomic { decision == COMMIT && at == END2 && tx == COMMITTED && w[1] == COMMITTED_B && w[2] == COMMITTED_B -> end_reached = true; assert(!end_reached) }
#endif
#if REACH_END == 4     /* by the votes of both */
end:	atomic { told == COMMIT && forgotten == COMMIT && m_commit && w[1] == COMMITTED_B && w[2] == COMMITTED_B -> end_reached = true; assert(!end_reached) }
#endif
}
#endif
#ifdef LIVE
ltl nothing_stays { (!<>[](w[1] == PREPARED)) && (!<>[](w[2] == PREPARED)) && (!<>[](tx == TO_SETTLE)) }
#endif
