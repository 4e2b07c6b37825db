/* One-phase commit as the code does it today: the log delegates the decision to the only branch,
   branch 2, which has a marker row that proves its end. A second application that knows the id may
   enlist branch 1 at another participant, prepare it and vote; then the log delegates nothing.

   Variants: SECOND (with the second application), CONCURRENT (the leader sweeps and prunes while it
   drives), by default with a worker of a deposed leader.
   Mistakes: DEADLINE_DECIDES, ROLLBACK_TAKEN, UNAWAITED (the commit is sent before the answer
   to Delegate), BESIDE_OTHERS (delegated beside another branch), ENLIST_TAKEN, NO_BARRIER,
   PRUNE_WHILE_BUSY, ROW_LATE (Delegate is sent before the branch is started), NO_HORIZON,
   NO_RESOLVE. */
#include "common.pml"

#define UNKNOWN 0
#define ACTIVE 1
#define DELEGATED 2
#define COMMITTING 3
#define COMMITTED 4
#define ROLLING_BACK 5
#define ROLLED_BACK 6
byte tx;
bool enlisted[3], finished[3], vote[3];
bool due;             /* the deadline has passed, which decides nothing once DELEGATED */

bool m_begin, m_enlist[3], m_delegate, m_commit, m_vote, m_report, m_aborted;
bool enlist_ok[3];

#define BEGIN 1
#define WORK 2
#define DELEGATE 3
#define END 4         /* the one-phase commit was sent */
#define VOTE 5
#define DECIDE 6
#define WAIT 7        /* in doubt: the client waits until the transaction is decided */
#define ABORT 8
#define STOP 9        /* rolls its branch back, with Delegate sent (Tx.rollbackSole) */
#define DONE 10
byte at2;             /* where the second application is */

#define NO_ROW 0
#define ROW 1
#define BARRIER 2
byte row;
#define locked (w[2] == WORKING || w[2] == PREPARED)
bool calling;

inline finish() {
	if
	:: (!enlisted[1] || finished[1]) && finished[2] ->
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
inline onBegin() {
	if
#ifdef NO_HORIZON
	:: tx == UNKNOWN -> REQUIRE(begun_twice, !begun); begun = true; tx = ACTIVE; send(BEGIN, OK)
#else
	:: tx == UNKNOWN && past_mark -> send(BEGIN, FORGOTTEN)
	:: tx == UNKNOWN && !past_mark -> REQUIRE(begun_twice, !begun); begun = true; tx = ACTIVE; send(BEGIN, OK)
#endif
	:: tx == ACTIVE || tx == DELEGATED -> send(BEGIN, OK)
	:: tx > DELEGATED -> answerOutcome(BEGIN)
	fi
}
inline onEnlist(b) {
	if
#ifdef ENLIST_TAKEN
	:: tx == ACTIVE || tx == DELEGATED -> enlisted[b] = true; if :: w[b] == NONE -> enlist_ok[b] = true :: true fi
#else
	:: tx == ACTIVE -> enlisted[b] = true; if :: w[b] == NONE -> enlist_ok[b] = true :: true fi
#endif
	:: else
	fi
}
inline onDelegate() { /* machine.delegate */
	if
	:: tx == ACTIVE && !enlisted[2]
#ifdef BESIDE_OTHERS
	:: tx == ACTIVE && enlisted[2] && !vote[2] -> tx = DELEGATED; send(DELEGATE, OK)
	:: tx == ACTIVE && enlisted[2] && vote[2] -> send(DELEGATE, REFUSED)
#else
	:: tx == ACTIVE && enlisted[2] && !enlisted[1] && !vote[2] -> tx = DELEGATED; send(DELEGATE, OK)
	:: tx == ACTIVE && enlisted[2] && (enlisted[1] || vote[2]) -> send(DELEGATE, REFUSED)
#endif
	:: tx == DELEGATED -> send(DELEGATE, OK)
	:: tx == UNKNOWN -> send(DELEGATE, REFUSED) /* not found */
	:: tx == COMMITTING || tx == COMMITTED -> send(DELEGATE, REFUSED)
	:: tx == ROLLING_BACK || tx == ROLLED_BACK -> send(DELEGATE, ROLLBACK)
	fi
}
inline onVote() { if :: tx == ACTIVE && enlisted[1] -> vote[1] = true :: else fi }
inline onCommit() {
	if
	:: tx == ACTIVE && enlisted[1] && !vote[1] -> send(DECIDE, REFUSED)
	:: tx == ACTIVE && (!enlisted[1] || vote[1]) -> vote[2] = true; decideCommit(); answerOutcome(DECIDE)
	:: tx == DELEGATED -> send(DECIDE, REFUSED)
	:: else -> answerOutcome(DECIDE)
	fi
}
inline onRollback() {
	if
#ifdef ROLLBACK_TAKEN
	:: tx == ACTIVE || tx == DELEGATED -> decideRollback()
#else
	:: tx == ACTIVE -> decideRollback()
#endif
	:: else
	fi;
	answerOutcome(WAIT)
}
/* machine.completeDelegated: the end of the branch is the decision. */
inline endDelegated(end) {
	if
	:: tx == DELEGATED && end == COMMIT -> finished[2] = true; decideCommit()
	:: tx == DELEGATED && end == ROLLBACK -> finished[2] = true; decideRollback()
	:: tx == COMMITTING && end == COMMIT || tx == ROLLING_BACK && end == ROLLBACK -> finished[2] = true; finish()
	:: tx >= COMMITTING && end != COMMIT && (tx == COMMITTING || tx == COMMITTED) -> VIOLATED(false_heuristic)
	:: tx >= COMMITTING && end == COMMIT && (tx == ROLLING_BACK || tx == ROLLED_BACK) -> VIOLATED(false_heuristic)
	:: else
	fi
}
active proctype Network() {
end:	do
	:: atomic { m_begin -> onBegin() }
#ifdef SECOND
	:: atomic { m_enlist[1] -> onEnlist(1) }
	:: atomic { m_vote -> onVote() }
#endif
	:: atomic { m_enlist[2] -> onEnlist(2) }
	:: atomic { m_delegate -> onDelegate() }
	:: atomic { m_commit -> onCommit() }
	:: atomic { begun -> onRollback() } /* of any client that knows the id */
	:: atomic { m_report -> if :: tx != UNKNOWN && tx != ACTIVE -> endDelegated(COMMIT) :: else fi }
	:: atomic { m_aborted -> if :: tx != UNKNOWN && tx != ACTIVE -> endDelegated(ROLLBACK) :: else fi }
	:: atomic { at == WAIT -> answerOutcome(WAIT) } /* the client asks again and again */
	od
}
#ifdef NO_HORIZON
#define mayForget true
#else
#define mayForget past_mark
#endif
/* The deadline, at any time after the begin (machine.expireBatch); the horizon; and the end of the retention. */
active proctype Time() {
end:	do
	:: atomic { tx == ACTIVE -> due = true; decideRollback() }
#ifdef DEADLINE_DECIDES
	:: atomic { tx == DELEGATED -> due = true; decideRollback() }
#else
	:: atomic { tx == DELEGATED && !due -> due = true }
#endif
	HORIZON_PASSES
	:: atomic { (tx == COMMITTED || tx == ROLLED_BACK) && mayForget ->
		forgotten = (tx == COMMITTED -> COMMIT : ROLLBACK);
		tx = UNKNOWN; due = false; enlisted[1] = false; enlisted[2] = false; finished[1] = false; finished[2] = false; vote[1] = false; vote[2] = false }
	od
}

#ifdef SECOND
active proctype Session1() {
end:	do
	:: atomic { request[1] == Q_PREPARE -> request[1] = 0;
		if :: w[1] == WORKING -> if :: w[1] = PREPARED; if :: at2 == VOTE -> answer[1] = YES :: true fi :: w[1] = ROLLED_BACK_B fi :: else fi }
	:: atomic { w[1] == WORKING -> w[1] = ROLLED_BACK_B; request[1] = 0 }
	:: atomic { request[1] != 0 && w[1] != WORKING -> request[1] = 0 }
	od
}
#endif
active proctype Session2() {
	byte a;
end:	do
	:: atomic { request[2] == Q_ONE_PHASE -> request[2] = 0;
		if
		:: w[2] == WORKING -> if :: w[2] = COMMITTED_B; row = ROW; a = YES :: w[2] = ROLLED_BACK_B; a = NO fi;
			if :: at == END -> answer[2] = a :: true fi
		:: else
		fi; a = 0 }
	:: atomic { request[2] == Q_PREPARE -> request[2] = 0;
		if
		:: w[2] == WORKING -> if :: w[2] = PREPARED; a = YES :: w[2] = ROLLED_BACK_B; a = NO fi;
			if :: at == VOTE -> answer[2] = a :: true fi
		:: else
		fi; a = 0 }
	:: atomic { request[2] == Q_COMMIT -> request[2] = 0; if :: w[2] == PREPARED -> w[2] = COMMITTED_B; row = ROW :: else fi }
	:: atomic { request[2] == Q_ROLLBACK -> request[2] = 0; if :: locked -> w[2] = ROLLED_BACK_B :: else fi }
	:: atomic { w[2] == WORKING && !hung -> w[2] = ROLLED_BACK_B; request[2] = 0 } /* a client that hangs keeps its session */
	:: atomic { request[2] != 0 && w[2] != WORKING && w[2] != PREPARED -> request[2] = 0 }
	od
}

/* Tx.onePhase, commitOnePhase and rollbackSole (txn/onephase.go); Tx.commit otherwise. */
active proctype Client() {
end:	do
	CLIENT_MAY_STOP
	:: atomic { alive && at == 0 -> at = BEGIN; m_begin = true }
	:: atomic { alive && at == BEGIN && reply == OK -> at = WORK; reply = 0; m_enlist[2] = true }
	:: atomic { alive && at == BEGIN -> at = ABORT; reply = 0 }
	:: atomic { alive && at == WORK && enlist_ok[2] && w[2] == NONE && row != BARRIER -> w[2] = WORKING; enlist_ok[2] = false }
#ifdef ROW_LATE
	:: atomic { alive && at == WORK && enlist_ok[2] -> at = DELEGATE; m_delegate = true }
	:: atomic { alive && at == DELEGATE && reply == OK && w[2] == NONE && row != BARRIER -> w[2] = WORKING; enlist_ok[2] = false }
#endif
	:: atomic { alive && at == WORK && w[2] != NONE -> at = DELEGATE; m_delegate = true }
	:: atomic { alive && at == WORK -> at = ABORT; enlist_ok[2] = false }
	:: atomic { alive && at == DELEGATE && reply == OK && w[2] != NONE -> at = END; reply = 0; request[2] = Q_ONE_PHASE }
#ifdef UNAWAITED
	:: atomic { alive && at == DELEGATE && w[2] != NONE -> at = END; reply = 0; request[2] = Q_ONE_PHASE }
#endif
	:: atomic { alive && at == DELEGATE && reply == ROLLBACK -> at = DONE; told = ROLLBACK; reply = 0; if :: locked -> request[2] = Q_ROLLBACK :: else fi }
	:: atomic { alive && at == DELEGATE && reply == REFUSED -> at = VOTE; reply = 0; request[2] = Q_PREPARE }
	:: atomic { alive && at == DELEGATE -> at = STOP; reply = 0; if :: locked -> request[2] = Q_ROLLBACK :: else fi }
	:: atomic { alive && at == STOP && w[2] == ROLLED_BACK_B -> at = DONE; told = ROLLBACK; m_aborted = true }
	:: atomic { alive && at == STOP -> at = WAIT }            /* the rollback was not answered: in doubt */
	:: atomic { alive && at == END && answer[2] == YES -> at = DONE; told = COMMIT; answer[2] = 0; m_report = true }
	:: atomic { alive && at == END && answer[2] == NO -> at = DONE; told = ROLLBACK; answer[2] = 0; m_aborted = true }
	:: atomic { alive && at == END -> at = WAIT; answer[2] = 0 }
	:: atomic { alive && at == VOTE && answer[2] == YES -> at = DECIDE; answer[2] = 0; m_commit = true }
	:: atomic { alive && at == VOTE -> at = ABORT; answer[2] = 0 }
	:: atomic { alive && at == DECIDE && reply == COMMIT -> at = DONE; told = COMMIT; reply = 0; if :: w[2] == PREPARED -> request[2] = Q_COMMIT :: else fi }
	:: atomic { alive && at == DECIDE && reply == ROLLBACK -> at = DONE; told = ROLLBACK; reply = 0 }
	:: atomic { alive && at == DECIDE -> at = WAIT; reply = 0 }
	:: atomic { alive && at == ABORT -> at = DONE; told = ROLLBACK; if :: request[2] == 0 && locked -> request[2] = Q_ROLLBACK :: else fi }
	:: atomic { alive && at == WAIT && reply == COMMIT -> at = DONE; told = COMMIT; reply = 0 }
	:: atomic { alive && at == WAIT && reply == ROLLBACK -> at = DONE; told = ROLLBACK; reply = 0 }
	:: atomic { alive && at == WAIT && reply == NOT_FOUND -> at = DONE; reply = 0 }
	od
}
#ifdef SECOND
/* The second application: txn.RunIn. It leaves phase two to the coordinator. */
active proctype Second() {
end:	do
	:: atomic { at2 == 0 -> at2 = WORK; m_enlist[1] = true }
	:: atomic { at2 == WORK && enlist_ok[1] && w[1] == NONE -> w[1] = WORKING; enlist_ok[1] = false; at2 = VOTE; request[1] = Q_PREPARE }
	:: atomic { at2 == VOTE && answer[1] == YES -> at2 = DONE; answer[1] = 0; m_vote = true }
	od
}

#endif

/* Recovery, as in twophase.pml. */
#define LEADER 0
#define DRIVER 1
#define VISITOR 2
#define DEPOSED 3
#define deposed (role == DEPOSED)
inline otherwise() { if :: !deposed -> VIOLATED(false_heuristic) :: else fi }
inline readRow(known) { atomic { known = row } }
/* task.rollbackByBarrier; resolving the outcome of a delegated branch is the same, but that a prepared
   branch is left (resolveOnly). r is the end that was found out; 0: the next attempt. */
inline barrier(resolve) {
	readRow(seen);
	if
	:: seen == ROW -> r = COMMIT
	:: seen == BARRIER -> r = ROLLBACK
	:: seen == NO_ROW -> atomic { if
#ifdef NO_BARRIER
		:: row == NO_ROW -> r = ROLLBACK
#else
		:: !locked && row == NO_ROW -> row = BARRIER; r = ROLLBACK
#endif
		:: row != NO_ROW
#ifndef NO_BARRIER
		:: locked -> seen = 3
#endif
		fi };
		if
		:: seen == 3 && w[2] == PREPARED -> atomic { if :: w[2] == PREPARED && !resolve -> w[2] = ROLLED_BACK_B; r = ROLLBACK :: else fi }
		:: seen == 3 && w[2] == WORKING -> atomic { if :: w[2] == WORKING -> w[2] = ROLLED_BACK_B; request[2] = 0 :: else fi }
		:: seen != 3 || w[2] != PREPARED && w[2] != WORKING
		fi
	fi;
	seen = 0
}
inline drive2() {
	atomic { todo = 0; if :: enlisted[2] && !finished[2] && (tx != DELEGATED || due) -> todo = tx :: else fi;
		if :: todo > ACTIVE && !deposed -> calling = true :: else fi };
	if
	:: todo == COMMITTING -> readRow(seen);
		if
		:: seen == ROW -> r = COMMIT
		:: seen != ROW && w[2] != PREPARED -> atomic { if :: row == ROW -> r = COMMIT :: else -> otherwise() fi }
		:: seen != ROW && w[2] == PREPARED -> atomic { if :: w[2] == PREPARED -> w[2] = COMMITTED_B; row = ROW; r = COMMIT :: else fi }
		fi; seen = 0
	:: todo == ROLLING_BACK -> barrier(false); if :: r == COMMIT -> otherwise() :: else fi
#ifdef NO_RESOLVE
	:: todo == DELEGATED
#else
	:: todo == DELEGATED -> barrier(true)
#endif
	:: else
	fi;
	atomic { if :: r != 0 && !deposed && tx != UNKNOWN -> endDelegated(r) :: else LOST fi;
		if :: !deposed -> calling = false :: else fi;
		r = 0; todo = 0 }
}
inline drive1() {
	atomic { todo = 0; if :: enlisted[1] && !finished[1] -> todo = tx :: else fi };
	if
	:: todo == COMMITTING -> atomic { if :: w[1] == PREPARED -> w[1] = COMMITTED_B :: w[1] == COMMITTED_B :: else -> otherwise() fi; r = COMMIT }
	:: todo == ROLLING_BACK -> atomic { r = ROLLBACK;
		if
		:: w[1] == PREPARED -> w[1] = ROLLED_BACK_B
		:: w[1] == WORKING -> if :: w[1] = ROLLED_BACK_B; request[1] = 0 :: true fi
		:: w[1] == COMMITTED_B -> otherwise()
		:: else
		fi }
	:: else
	fi;
	atomic { if :: r != 0 && !deposed && tx == todo -> finished[1] = true; finish() :: else LOST fi; r = 0; todo = 0 }
}
#define PRESUMED 3
inline sweep(b) {
	listed = (w[b] == PREPARED);
	if
	:: listed -> atomic { if
		:: tx == UNKNOWN -> todo = PRESUMED
		:: (tx == COMMITTING || tx == COMMITTED) && enlisted[b] && finished[b] -> todo = COMMIT
		:: (tx == ROLLING_BACK || tx == ROLLED_BACK) && (!enlisted[b] || finished[b]) -> todo = ROLLBACK
		:: else -> todo = 0
		fi }
	:: else
	fi;
	if :: listed && todo != 0 -> listed = (w[b] == PREPARED) :: else fi;
	atomic { if
		:: listed && todo == PRESUMED -> REQUIRE(commit_swept, decision != COMMIT); if :: w[b] == PREPARED -> w[b] = ROLLED_BACK_B :: else fi
		:: listed && todo == ROLLBACK && w[b] == PREPARED -> w[b] = ROLLED_BACK_B
		:: listed && todo == COMMIT && w[b] == PREPARED -> w[b] = COMMITTED_B; if :: b == 2 -> row = ROW :: else fi
		:: else
		fi;
		listed = false; todo = 0 }
}
inline prune() {
	if :: !locked && row != NO_ROW -> listed = true :: else fi;
	if :: listed -> atomic { if :: tx == COMMITTED || tx == ROLLED_BACK || tx == UNKNOWN :: else -> listed = false fi } :: else fi;
#ifndef PRUNE_WHILE_BUSY
	if :: listed && calling -> listed = false :: else fi;
#endif
	atomic { if :: listed && !locked -> row = NO_ROW :: else fi; listed = false }
}
proctype Recovery(byte role) {
	byte todo, seen, r, job;
	bool listed;
end:	do
	:: true ->
#ifdef LIVE
		if :: role == DEPOSED -> if :: job = 0 :: job = 1 :: job = 2 :: job = 3 :: job = 4 fi :: else -> job = (job + 1) % 5 fi;
#else
		if
		:: role != VISITOR -> job = 0
#ifdef SECOND
		:: role != VISITOR -> job = 1
		:: role != DRIVER -> job = 2
#endif
		:: role != DRIVER -> job = 3
		:: role != DRIVER -> job = 4
		fi;
#endif
		if
		:: job == 0 -> drive2()
		:: job == 1 -> drive1()
		:: job == 2 -> sweep(1)
		:: job == 3 -> sweep(2)
#ifdef NO_PRUNE
		:: job == 4
#else
		:: job == 4 -> prune()
#endif
		fi;
		atomic {
#ifndef LIVE
			job = 0;
#endif
			if :: role == DEPOSED -> break :: else fi }
	od
}
init { atomic {
#ifdef CONCURRENT
	run Recovery(DRIVER); run Recovery(VISITOR)
#else
	run Recovery(LEADER);
#ifndef SECOND
	run Recovery(DEPOSED)
#endif
#endif
	} }
#ifdef LIVE
#ifdef LOCKS
/* A client that hangs keeps the locks of branch 2 no longer than until the deadline. */
ltl nothing_stays_locked { !<>[](w[2] == WORKING && tx != ACTIVE) }
#else
ltl nothing_stays_prepared { (!<>[](w[1] == PREPARED)) && (!<>[](w[2] == PREPARED)) }
#endif
#endif
