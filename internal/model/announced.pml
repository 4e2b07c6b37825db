/* A branch that is appointed in an announcement that is not awaited, as the code does it. Branch 1 has a marker
   row. The client inserts the row in its session, sends the begin that appoints the branch, and commits it
   in one phase whenever it likes: the row becomes durable with the work, and that is the decision. The log learns it by
   a report of the client, or, after the deadline or a rollback, by resolving the branch. If the client enlists
   branch 2, which has no row, the same command revokes the appointment; it is awaited before anything prepares, and then
   the log decides by the votes.

   Variants: SHARED (the client revokes, awaits that, and shares the id with a second application, which enlists
   branch 2 and votes, and which has the id by other ways before), SINGLE (no second branch), CONCURRENT (with a
   second worker of the leader), NO_BARRIER (harmless, since the row is first), CLOCK (rows are pruned by the clock of
   the id, which may be wrong in any way) with BEGIN_BY_CLOCK (a begin is refused by that clock, too), ENLIST_LATE (the
   enlistment is taken, and revokes, while the branch is to be resolved), REPORT_REFUSED (the client's report is not taken then;
   both are harmless).
   Mistakes: ROW_LATE (the row after the begin), DEADLINE_DECIDES, ROLLBACK_DECIDES, PRUNED_AT_ONCE (as unknown),
   NO_HORIZON, CLOCK alone, ENLIST_KEEPS (an enlistment does not revoke), OTHERS_REVOKE, UNAWAITED (prepares before the
   revocation is answered), COMMITS_REVOKED (commits in one phase although the revocation was sent), BEGIN_APPOINTS (a
   repeated begin appoints again), NO_RESOLVE, NOT_FOUND_IS_END, PRUNE_WHILE_BUSY. */
#include "common.pml"

#define UNKNOWN 0
#define ACTIVE 1
#define TO_RESOLVE 2  /* appointed, and the deadline has passed or a rollback was requested: only the branch's end is accepted */
#define COMMITTING 3
#define COMMITTED 4
#define ROLLING_BACK 5
#define ROLLED_BACK 6
byte tx;
bool appointed, enlisted2, finished[3], vote2;

#define NO_ROW 0
#define LOCKED 1      /* inserted by the branch, not committed; while it is WORKING or PREPARED */
#define ROW 2
#define BARRIER 3
byte row;
bool m_begin, m_enlist, m_revoke, m_commit, m_report, m_rollback;
byte busy;            /* the leader's calls for branch 1, from asking the log until the report is taken */
bool past_clock;      /* by the clock, the id is older than the horizon */

#define WORK 1
#define REVOKE 2      /* the revocation was sent */
#define VOTES 3
#define DECIDE 4
#define FINISH 5
#define END 6         /* the one-phase commit was sent */
#define REPORT 7
#define ABORT 8
#define WAIT 9
#define DONE 10
byte at2;             /* where the second application is */
bool enlist_ok;

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
inline decideCommit() { REQUIRE(decided_twice, decision != ROLLBACK && told != ROLLBACK); decision = COMMIT; tx = COMMITTING; finish() }
inline decideRollback() { REQUIRE(decided_twice, decision != COMMIT && told != COMMIT); decision = ROLLBACK; tx = ROLLING_BACK; finish() }
inline answerOutcome(place) {
	if
	:: tx == UNKNOWN -> send(place, NOT_FOUND)
	:: tx == COMMITTING || tx == COMMITTED -> send(place, COMMIT)
	:: tx == ROLLING_BACK || tx == ROLLED_BACK -> send(place, ROLLBACK)
	:: else
	fi
}
#ifdef BEGIN_BY_CLOCK
#define behind (past_mark || past_clock)
#else
#ifdef NO_HORIZON
#define behind false
#else
#define behind past_mark
#endif
#endif
inline onBegin() {
	if
	:: tx == UNKNOWN && behind -> send(WORK, FORGOTTEN)
	:: tx == UNKNOWN && !behind -> REQUIRE(begun_twice, !begun); begun = true; tx = ACTIVE; appointed = true
#ifdef BEGIN_APPOINTS
	:: tx == ACTIVE -> appointed = true
#endif
	:: else
	fi
}
/* The enlistment of branch 2, or with SHARED the revocation alone. */
inline onRevoke() {
	if
	:: tx == ACTIVE ->
#ifndef ENLIST_KEEPS
		appointed = false;
#endif
#ifndef SHARED
		enlisted2 = true;
#endif
		send(REVOKE, OK)
#ifdef ENLIST_LATE
	:: tx == TO_RESOLVE -> tx = ACTIVE; appointed = false; enlisted2 = true; send(REVOKE, OK)
#endif
	:: tx != ACTIVE -> send(REVOKE, REFUSED)
	fi
}
inline onEnlist() {   /* of the second application */
	if
#ifdef OTHERS_REVOKE
	:: tx == ACTIVE -> appointed = false; enlisted2 = true; enlist_ok = true
#else
	:: tx == ACTIVE && !appointed -> enlisted2 = true; if :: w[2] == NONE -> enlist_ok = true :: true fi
#endif
	:: else
	fi
}
inline onCommit() {
	if
	:: tx == ACTIVE && !appointed && (!enlisted2 || vote2) -> decideCommit(); answerOutcome(DECIDE)
	:: tx == ACTIVE && (appointed || enlisted2 && !vote2) -> send(DECIDE, REFUSED)
	:: tx == TO_RESOLVE -> send(DECIDE, REFUSED)
	:: else -> answerOutcome(DECIDE)
	fi
}
/* The end of branch 1, as its client or recovery reports it: while it is appointed it is the decision. */
inline onEnd(end) {
	if
	:: (tx == ACTIVE && appointed || tx == TO_RESOLVE) && end == COMMIT -> finished[1] = true; decideCommit()
	:: (tx == ACTIVE && appointed || tx == TO_RESOLVE) && end == ROLLBACK -> finished[1] = true; decideRollback()
	:: (tx == COMMITTING && end == COMMIT) || (tx == ROLLING_BACK && end == ROLLBACK) -> finished[1] = true; finish()
	:: (tx == COMMITTING || tx == COMMITTED) && end == ROLLBACK || (tx == ROLLING_BACK || tx == ROLLED_BACK) && end == COMMIT -> VIOLATED(false_heuristic)
	:: else
	fi
}
inline toResolve() {
	if
	:: tx == ACTIVE && appointed -> tx = TO_RESOLVE
	:: tx == ACTIVE && !appointed -> decideRollback()
	:: else
	fi
}
active proctype Network() {
end:	do
	:: atomic { m_begin -> onBegin() }
	:: atomic { m_revoke -> onRevoke() }
#ifdef SHARED
	:: atomic { m_enlist -> onEnlist() }
#endif
	:: atomic { m_commit -> onCommit() }
#ifdef REPORT_REFUSED
	:: atomic { m_report && tx != TO_RESOLVE -> if :: tx == ACTIVE && appointed -> onEnd(COMMIT) :: else fi }
#else
	:: atomic { m_report -> onEnd(COMMIT) }
#endif
#ifdef ROLLBACK_DECIDES
	:: atomic { (m_rollback || begun) && tx == ACTIVE -> decideRollback() }
#else
	:: atomic { (m_rollback || begun) && tx == ACTIVE -> toResolve() } /* of any client that knows the id */
#endif
	:: atomic { m_rollback && tx != ACTIVE -> answerOutcome(WAIT) }    /* the client asks again and again */
	od
}
#ifdef NO_HORIZON
#define mayForget true
#else
#define mayForget past_mark
#endif
active proctype Time() {
end:	do
#ifdef DEADLINE_DECIDES
	:: atomic { tx == ACTIVE -> decideRollback() }
#else
	:: atomic { tx == ACTIVE -> toResolve() }
#endif
	HORIZON_PASSES
#ifdef CLOCK
	:: atomic { !past_clock -> past_clock = true }
#endif
	:: atomic { (tx == COMMITTED || tx == ROLLED_BACK) && mayForget -> forgotten = (tx == COMMITTED -> COMMIT : ROLLBACK);
		tx = UNKNOWN; appointed = false; enlisted2 = false; vote2 = false; finished[1] = false; finished[2] = false }
	od
}

inline endBranch(b, how) { w[b] = how; if :: b == 1 -> row = (how == COMMITTED_B -> ROW : NO_ROW) :: else fi }
active proctype Session1() {
end:	do
	:: atomic { request[1] == Q_ONE_PHASE -> request[1] = 0;
		if
		:: w[1] == WORKING -> if :: endBranch(1, COMMITTED_B); if :: at == END -> answer[1] = YES :: true fi :: endBranch(1, ROLLED_BACK_B); if :: at == END -> answer[1] = NO :: true fi fi
		:: else
		fi }
	:: atomic { request[1] == Q_PREPARE -> request[1] = 0;
		if :: w[1] == WORKING -> if :: w[1] = PREPARED; if :: at == VOTES -> answer[1] = YES :: true fi :: endBranch(1, ROLLED_BACK_B) fi :: else fi }
	:: atomic { request[1] == Q_COMMIT -> request[1] = 0; if :: w[1] == PREPARED -> endBranch(1, COMMITTED_B) :: else fi }
	:: atomic { request[1] == Q_ROLLBACK -> request[1] = 0; if :: w[1] == WORKING || w[1] == PREPARED -> endBranch(1, ROLLED_BACK_B) :: else fi }
	:: atomic { w[1] == WORKING && !hung -> endBranch(1, ROLLED_BACK_B); request[1] = 0 } /* a client that hangs keeps its session */
	:: atomic { request[1] != 0 && w[1] != WORKING && w[1] != PREPARED -> request[1] = 0 }
	od
}
active proctype Session2() {
end:	do
	:: atomic { request[2] == Q_PREPARE -> request[2] = 0;
		if :: w[2] == WORKING -> if :: w[2] = PREPARED; if :: at == VOTES || at2 == VOTES -> answer[2] = YES :: true fi :: w[2] = ROLLED_BACK_B fi :: else fi }
	:: atomic { request[2] == Q_COMMIT -> request[2] = 0; if :: w[2] == PREPARED -> w[2] = COMMITTED_B :: else fi }
	:: atomic { request[2] == Q_ROLLBACK -> request[2] = 0; if :: w[2] == WORKING || w[2] == PREPARED -> w[2] = ROLLED_BACK_B :: else fi }
	:: atomic { w[2] == WORKING -> w[2] = ROLLED_BACK_B; request[2] = 0 }
	:: atomic { request[2] != 0 && w[2] != WORKING && w[2] != PREPARED -> request[2] = 0 }
	od
}
#define startable (w[1] == NONE && row == NO_ROW)   /* otherwise the insert is refused */
#ifdef UNAWAITED
#define revoked true
#else
#define revoked (reply == OK)
#endif
inline stop(b) { if :: request[b] == 0 && (w[b] == WORKING || w[b] == PREPARED) -> request[b] = Q_ROLLBACK :: else fi }
active proctype Client() {
end:	do
	CLIENT_MAY_STOP
	:: atomic { alive && at == 0 && startable -> at = WORK; w[1] = WORKING; row = LOCKED }
#ifdef ROW_LATE
	:: atomic { alive && at == 0 -> at = WORK; m_begin = true }      /* the announcement first */
	:: atomic { alive && at == WORK && startable -> w[1] = WORKING; row = LOCKED }
#endif
	:: atomic { alive && at == WORK && w[1] != NONE && !m_begin -> m_begin = true }
	/* One branch: it commits, whatever the log has answered. */
	:: atomic { alive && at == WORK && w[1] != NONE && m_begin -> at = END; reply = 0; request[1] = Q_ONE_PHASE }
	:: atomic { alive && at == END && answer[1] == YES -> at = REPORT; told = COMMIT; answer[1] = 0 }
	:: atomic { alive && at == END && answer[1] == NO -> at = ABORT; answer[1] = 0 }
	:: atomic { alive && at == END -> at = WAIT; answer[1] = 0; m_rollback = true }     /* in doubt */
	:: atomic { alive && at == REPORT -> at = DONE; m_report = true }
#ifndef SINGLE
	/* A second branch, or another application. */
	:: atomic { alive && at == WORK && w[1] != NONE && m_begin -> at = REVOKE; reply = 0; m_revoke = true;
#ifndef SHARED
		if :: w[2] = WORKING :: true fi
#endif
		}
#endif
#ifdef COMMITS_REVOKED
	:: atomic { alive && at == REVOKE && reply != OK -> at = END; reply = 0; request[1] = Q_ONE_PHASE }
#endif
#ifdef SHARED
	:: atomic { alive && at == REVOKE && reply == OK -> at = VOTES; reply = 0; request[1] = Q_PREPARE }
	:: atomic { alive && at == VOTES && answer[1] == YES -> at = DECIDE; answer[1] = 0; m_commit = true }
#else
	:: atomic { alive && at == REVOKE && revoked && w[2] != NONE -> at = VOTES; reply = 0; request[1] = Q_PREPARE; request[2] = Q_PREPARE }
	:: atomic { alive && at == VOTES && answer[1] == YES && answer[2] == YES -> at = DECIDE; answer[1] = 0; answer[2] = 0; vote2 = true; m_commit = true }
#endif
	:: atomic { alive && at == DECIDE && reply == COMMIT -> told = COMMIT; at = FINISH; reply = 0 }
	:: atomic { alive && at == DECIDE && reply == ROLLBACK -> told = ROLLBACK; at = DONE; reply = 0; stop(1);
#ifndef SHARED
		stop(2)
#endif
		}
	:: atomic { alive && at == DECIDE -> at = WAIT; m_rollback = true; reply = 0 }
	:: atomic { alive && at == FINISH -> at = DONE; if :: w[1] == PREPARED -> request[1] = Q_COMMIT :: else fi }
	:: atomic { alive && (at == WORK || at == REVOKE || at == VOTES) -> at = ABORT; reply = 0; answer[1] = 0; answer[2] = 0 }
	/* It did not send a commit, or the server refused it. */
	:: atomic { alive && at == ABORT -> at = DONE; told = ROLLBACK; m_rollback = true; stop(1);
#ifndef SHARED
		stop(2)
#endif
		}
	:: atomic { alive && at == WAIT && reply == COMMIT -> told = COMMIT; at = DONE; reply = 0 }
	:: atomic { alive && at == WAIT && reply == ROLLBACK -> told = ROLLBACK; at = DONE; reply = 0 }
	:: atomic { alive && at == WAIT && reply == NOT_FOUND -> at = DONE; reply = 0;
#ifdef NOT_FOUND_IS_END
		told = ROLLBACK
#endif
		}
	od
}
#ifdef SHARED
active proctype Second() {
end:	do
	:: atomic { at2 == 0 -> at2 = WORK; m_enlist = true }    /* before or after the client has revoked */
	:: atomic { at2 == WORK && enlist_ok && w[2] == NONE -> w[2] = WORKING; enlist_ok = false; at2 = VOTES; request[2] = Q_PREPARE }
	:: atomic { at2 == VOTES && answer[2] == YES -> at2 = DONE; answer[2] = 0; if :: tx == ACTIVE && enlisted2 -> vote2 = true :: else fi }
	od
}
#endif

/* The leader; a worker of a deposed one, which does one round at any time after it has asked the log and reports to no
   log; and a second worker of the leader with one round. */
#define LEADER 0
#define DEPOSED 1
#define SECOND_WORKER 2
#define deposed (role == DEPOSED)
/* task.rollbackByBarrier: one attempt. end: 0 is another attempt. */
inline barrier() {
	atomic { if :: row == ROW -> end_ = COMMIT :: row == BARRIER -> end_ = ROLLBACK :: else -> end_ = 0 fi };
	if
	:: end_ == 0 && row == LOCKED -> atomic { if
		:: w[1] == WORKING -> endBranch(1, ROLLED_BACK_B); request[1] = 0      /* task.fence */
		:: w[1] == PREPARED && todo == ROLLING_BACK -> endBranch(1, ROLLED_BACK_B)
		:: else
		fi }
	:: end_ == 0 && row != LOCKED -> atomic { if
#ifdef NO_BARRIER
		:: row == NO_ROW || row == BARRIER -> end_ = ROLLBACK
#else
		:: row == NO_ROW -> row = BARRIER; end_ = ROLLBACK
		:: row == BARRIER -> end_ = ROLLBACK
#endif
		:: row == ROW -> end_ = COMMIT
		:: row == LOCKED
		fi }
	:: end_ != 0
	fi
}
inline drive1() {
	atomic { todo = 0; if :: (tx == TO_RESOLVE || tx == COMMITTING || tx == ROLLING_BACK) && !finished[1] -> todo = tx :: else fi;
		if :: todo != 0 && !deposed -> busy++ :: else fi };
	if
	:: todo == COMMITTING -> atomic { if
		:: w[1] == PREPARED -> endBranch(1, COMMITTED_B); end_ = COMMIT
		:: row == ROW -> end_ = COMMIT
		:: else -> if :: !deposed -> VIOLATED(false_heuristic) :: else fi
		fi }
	:: todo == ROLLING_BACK -> barrier()
#ifdef NO_RESOLVE
	:: todo == TO_RESOLVE
#else
	:: todo == TO_RESOLVE -> barrier()
#endif
	:: todo == 0
	fi;
	atomic { if :: end_ != 0 && !deposed && tx != UNKNOWN -> onEnd(end_) :: else LOST fi;
		if :: todo != 0 && !deposed -> busy-- :: else fi; end_ = 0; todo = 0 }
}
inline drive2() {
	atomic { todo = 0; if :: (tx == COMMITTING || tx == ROLLING_BACK) && enlisted2 && !finished[2] -> todo = tx :: else fi };
	if
	:: todo == COMMITTING -> atomic { if :: w[2] == PREPARED -> w[2] = COMMITTED_B :: w[2] == COMMITTED_B :: else -> if :: !deposed -> VIOLATED(false_heuristic) :: else fi fi }
	:: todo == ROLLING_BACK -> atomic { if
		:: w[2] == PREPARED -> w[2] = ROLLED_BACK_B
		:: w[2] == WORKING -> if :: w[2] = ROLLED_BACK_B; request[2] = 0 :: true fi
		:: w[2] == COMMITTED_B -> if :: !deposed -> VIOLATED(false_heuristic) :: else fi
		:: else
		fi }
	:: todo == 0
	fi;
	atomic { if :: todo != 0 && !deposed && tx == todo -> finished[2] = true; finish() :: else LOST fi; todo = 0 }
}
/* List, ask the log, list again. The clocks of today's rule for unknown branches may say anything. */
inline sweep(b) {
	listed = (w[b] == PREPARED);
	if :: listed -> atomic { if
		:: tx == UNKNOWN -> todo = UNKNOWN
		:: (tx == COMMITTING || tx == COMMITTED) && (b == 1 || enlisted2) && finished[b] -> todo = COMMITTING
		:: (tx == ROLLING_BACK || tx == ROLLED_BACK) && (b == 2 && !enlisted2 || finished[b]) -> todo = ROLLING_BACK
		:: else -> listed = false
		fi }
	:: else
	fi;
	if :: listed -> listed = (w[b] == PREPARED) :: else fi;
	atomic { if
		:: listed && w[b] == PREPARED && todo == COMMITTING -> endBranch(b, COMMITTED_B)
		:: listed && w[b] == PREPARED && todo != COMMITTING -> REQUIRE(commit_swept, todo != UNKNOWN || decision != COMMIT); endBranch(b, ROLLED_BACK_B)
		:: else
		fi;
		listed = false; todo = 0 }
}
#ifdef CLOCK
#define oldEnough past_clock
#else
#ifdef PRUNED_AT_ONCE
#define oldEnough true
#else
#define oldEnough past_mark
#endif
#endif
inline prune() {      /* scan.Prune: see the row, ask the log, ask whether a call is under way, remove */
	if :: row == ROW || row == BARRIER -> listed = true :: else fi;
	if :: listed -> atomic { if :: tx == COMMITTED || tx == ROLLED_BACK || tx == UNKNOWN && oldEnough :: else -> listed = false fi } :: else fi;
#ifndef PRUNE_WHILE_BUSY
	if :: listed && busy > 0 -> listed = false :: else fi;
#endif
	atomic { if :: listed && (row == ROW || row == BARRIER) -> row = NO_ROW :: else fi; listed = false }
}
proctype Recovery(byte role) {
	byte end_, todo, job;
	bool listed;
end:	do
	:: true ->
#ifdef LIVE
		if :: role == LEADER -> job = (job + 1) % 5 :: role != LEADER -> if :: job = 0 :: job = 1 :: job = 2 :: job = 3 fi fi;
#else
		if :: job = 0 :: job = 1 :: job = 2 :: job = 3 :: !deposed -> job = 4 fi;
#endif
		if
		:: job == 0 -> drive1()
		:: job == 1 -> drive2()
		:: job == 2 -> sweep(1)
		:: job == 3 -> sweep(2)
		:: job == 4 -> prune()
		fi;
		atomic {
#ifndef LIVE
			job = 0;
#endif
			if :: role != LEADER -> break :: else fi }
	od
}
init { atomic { run Recovery(LEADER); run Recovery(DEPOSED);
#ifdef CONCURRENT
	run Recovery(SECOND_WORKER)
#endif
	} }
#ifdef REACH_ALONE
/* Of the branch alone: with the begin of which the log knows only after the commit, or with one that is never begun. */
active proctype Alone() {
#if REACH_ALONE == 1
end:	atomic { decision == COMMIT && !enlisted2 && tx == COMMITTED && told == 0 && w[1] == COMMITTED_B -> end_reached = true; assert(!end_reached) }
#else
#if REACH_ALONE == 2
end:	atomic { decision == ROLLBACK && !enlisted2 && tx == ROLLED_BACK && told == 0 && w[1] == ROLLED_BACK_B -> end_reached = true; assert(!end_reached) }
#else
end:	atomic { past_mark && !begun && told == COMMIT && w[1] == COMMITTED_B && row == NO_ROW -> end_reached = true; assert(!end_reached) }
#endif
#endif
}
#endif
#ifdef LIVE
/* Nothing stays prepared, or to be resolved; and a client that hangs keeps the locks of branch 1 no longer than until the
   deadline, if its begin has arrived. */
ltl nothing_stays { (!<>[](w[1] == PREPARED)) && (!<>[](w[2] == PREPARED)) && (!<>[](tx == TO_RESOLVE)) && (!<>[](w[1] == WORKING && tx > ACTIVE)) }
#endif
