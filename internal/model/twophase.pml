/* Two-phase commit that the log decides: what the code does when begin and enlistments are calls; and
   with WORK_FIRST what it does with a txn.Namer, the begin and the enlistments in one call beside the work, awaited before PREPARE.

   Participant 1 keeps no row, and a rollback may miss its session (PostgreSQL with fence=off): the
   hardest case. Participant 2 has a marker row (MariaDB); with SERVICE it is a web service that
   the coordinator prepares; with PLAIN it is as participant 1.

   Variants: SERVICE, PLAIN, JOINED (the begin carries the enlistments), RESTORED (a backup is taken and restored;
   without a deposed worker), TICKS (a sweep
   leaves what the log does not know until the horizon is past its mark; otherwise the clocks of
   today's rule may say anything), UNAWAITED (with TICKS: begin not awaited before PREPARE).
   Mistakes: NO_HORIZON, LATER_MARK, UNAWAITED without TICKS, LOG_FIRST, ONE_LOOK,
   NOT_FOUND_IS_END, NO_SWEEP, PRUNE_WHILE_BUSY, DEPOSED_REPORTS, VOTE_NOT_ASKED, NO_BARRIER,
   NO_LIST, LATE_LOOKUP (a deposed leader reads the log after the
   next one has begun its calls), SAME_EPOCH, SWEPT_AFTER_RESTORE, NO_MARK (a missing row proves a rollback also after a
   restore), BARRIER_PROVES (a barrier does). */
#include "common.pml"

/* The transaction in the log (txn/machine). */
#define UNKNOWN 0
#define ACTIVE 1
#define PREPARING 2
#define COMMITTING 3
#define COMMITTED 4
#define ROLLING_BACK 5
#define ROLLED_BACK 6
byte tx;
bool enlisted[3], finished[3];
bool heuristic;       /* only a restored cluster may have one */

/* The calls of the client that are in the network: once sent, a call is delivered never, once or
   any number of times, in any order, after anything. */
bool m_begin, m_enlist[3], m_commit, m_rollback, m_report;
bool enlist_ok[3];    /* the client has the answer to its enlistment */

/* Where the client is. */
#define BEGIN 1
#define WORK 2
#define VOTES 3
#define DECIDE 4
#define FINISH 5
#define REPORT 6
#define ABORT 7
#define ASK 8
#define DONE 9

/* The marker row of branch 2; while it is WORKING or PREPARED, it has the row locked. */
#define NO_ROW 0
#define ROW 1         /* committed with the branch: the proof */
#define BARRIER 2     /* written by the coordinator: the branch cannot start any more */
byte row;
#define locked (w[2] == WORKING || w[2] == PREPARED)
#if !defined(SERVICE) && !defined(PLAIN)
#define ROWS
#endif

bool calling;         /* a call of the leader for branch 2 is under way, or its report (recovery.busyLocked) */
bool restored, paused;
#ifdef RESTORED
bool marked;          /* machine.Transaction.BeforeRestore: it may have been committed after the backup */
#endif
#if defined(RESTORED) && !defined(NO_MARK)
#define rowMayBeGone marked       /* !task.missingRowProves() */
#else
#define rowMayBeGone false
#endif
#ifdef BARRIER_PROVES
#define barrierProves true
#else
#define barrierProves (!rowMayBeGone)
#endif

/* machine.finish: the transaction is finished when all its branches are. */
inline finish() {
	if
	:: (!enlisted[1] || finished[1]) && (!enlisted[2] || finished[2]) ->
		if
		:: tx == COMMITTING -> tx = COMMITTED
		:: tx == ROLLING_BACK -> tx = ROLLED_BACK
		:: else
		fi;
		REQUIRE(unnoticed, heuristic || !(tx == ROLLED_BACK && (w[1] == COMMITTED_B || w[2] == COMMITTED_B) || tx == COMMITTED && (w[1] == ROLLED_BACK_B || w[2] == ROLLED_BACK_B)))
	:: else
	fi
}
/* machine.decideCommit and machine.decideRollback, with finishVoteless. */
inline decideCommit() {
	REQUIRE(decided_twice, decision != ROLLBACK);
	decision = COMMIT; tx = COMMITTING;
	if :: w[1] == READ_ONLY_B -> finished[1] = true :: else fi;
	if :: w[2] == READ_ONLY_B -> finished[2] = true :: else fi;
	finish()
}
inline decideRollback() {
	REQUIRE(decided_twice, decision != COMMIT && told != COMMIT);
	decision = ROLLBACK; tx = ROLLING_BACK;
	finish()
}
inline answerOutcome(place) {
	if
	:: tx == UNKNOWN -> send(place, NOT_FOUND)
	:: tx == COMMITTING || tx == COMMITTED -> send(place, COMMIT)
	:: tx == ROLLING_BACK || tx == ROLLED_BACK -> send(place, ROLLBACK)
	:: else
	fi
}
inline beginNew() {
	REQUIRE(begun_twice, !begun);
	begun = true; tx = ACTIVE;
#if defined(WORK_FIRST) || defined(JOINED)
	enlisted[1] = true; enlisted[2] = true;
#endif
	send(BEGIN, OK)
}
inline onBegin() {    /* machine.begin, mayBeForgotten */
	if
	:: tx == UNKNOWN && paused
#ifdef NO_HORIZON
	:: tx == UNKNOWN && !paused -> beginNew()
#else
	:: tx == UNKNOWN && !paused && past_mark -> send(BEGIN, FORGOTTEN)
	:: tx == UNKNOWN && !paused && !past_mark -> beginNew()
#ifdef LATER_MARK
	:: tx == UNKNOWN && !paused && past_mark -> beginNew()
#endif
#endif
	:: tx == ACTIVE || tx == PREPARING -> send(BEGIN, OK)
	:: tx > PREPARING -> answerOutcome(BEGIN)
	fi
}
inline onEnlist(b) {  /* machine.enlist */
	if
	:: tx == ACTIVE -> enlisted[b] = true; if :: at == WORK && w[b] == NONE -> enlist_ok[b] = true :: true fi
	:: else               /* refused: the client aborts, as it may at any time */
	fi
}
inline onCommit() {   /* machine.commit */
	if
	:: tx == ACTIVE && (!enlisted[1] || !enlisted[2]) -> send(DECIDE, REFUSED)
	:: tx == ACTIVE && enlisted[1] && enlisted[2] ->
#if defined(SERVICE) && !defined(VOTE_NOT_ASKED)
		tx = PREPARING
#else
		decideCommit(); answerOutcome(DECIDE)
#endif
	:: tx == PREPARING
	:: tx == UNKNOWN || tx > PREPARING -> answerOutcome(DECIDE)
	fi
}
/* machine.rollback; and machine.vote, for the call may carry votes that are no, which finish their branches. */
inline onRollback() {
	if
	:: tx == ACTIVE || tx == PREPARING ->
		if :: enlisted[1] && w[1] == ROLLED_BACK_B -> finished[1] = true :: true fi;
		if :: enlisted[2] && w[2] == ROLLED_BACK_B -> finished[2] = true :: true fi;
		decideRollback()
	:: else
	fi;
	answerOutcome(ASK)
}
/* machine.reportCompletion. The report is of one branch, of the other, or of both. */
inline onReport() {
	if
	:: tx == COMMITTING ->
		if :: w[1] == COMMITTED_B -> finished[1] = true :: true fi;
		if :: w[2] == COMMITTED_B -> finished[2] = true :: true fi;
		finish()
	:: else
	fi
}
active proctype Network() {
end:	do
	:: atomic { m_begin -> onBegin() }
	:: atomic { m_enlist[1] -> onEnlist(1) }
	:: atomic { m_enlist[2] -> onEnlist(2) }
	:: atomic { m_commit -> onCommit() }
	:: atomic { m_rollback -> onRollback() }
	:: atomic { m_report -> onReport() }
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
	:: atomic { tx == ACTIVE || tx == PREPARING -> decideRollback() }
	HORIZON_PASSES
	:: atomic { (tx == COMMITTED || tx == ROLLED_BACK) && !heuristic && mayForget ->
		forgotten = (tx == COMMITTED -> COMMIT : ROLLBACK);
		tx = UNKNOWN; enlisted[1] = false; enlisted[2] = false; finished[1] = false; finished[2] = false }
	od
}

inline endBranch(b, how) {
	w[b] = how;
#ifdef ROWS
	if :: b == 2 && how == COMMITTED_B -> row = ROW :: else fi
#endif
}
/* The participant executes what its session was sent; it and the session may fail at any time. */
proctype Session(byte b) {
	byte a;
end:	do
	:: atomic { request[b] == Q_PREPARE -> request[b] = 0;
		if
		:: w[b] == WORKING -> if :: w[b] = PREPARED; a = YES :: w[b] = ROLLED_BACK_B; a = NO :: w[b] = READ_ONLY_B; a = YES fi
		:: else -> a = NO
		fi;
		if :: at == VOTES -> answer[b] = a :: true fi; a = 0 }
	:: atomic { request[b] == Q_COMMIT -> request[b] = 0; if :: w[b] == PREPARED -> endBranch(b, COMMITTED_B) :: else fi }
	:: atomic { request[b] == Q_ROLLBACK -> request[b] = 0; if :: w[b] == WORKING || w[b] == PREPARED -> endBranch(b, ROLLED_BACK_B) :: else fi }
	:: atomic { w[b] == WORKING -> w[b] = ROLLED_BACK_B; request[b] = 0 }
	:: atomic { request[b] != 0 && w[b] != WORKING -> request[b] = 0 }
	od
}

/* The application with the SDK: txn.Run, Tx.Commit (txn/commit.go). */
#ifdef WORK_FIRST
#define startable(b) (at == BEGIN && w[b] == NONE)
#else
#define startable(b) (at == WORK && enlist_ok[b] && w[b] == NONE)
#endif
#ifdef SERVICE
#define started(b) (b == 1 && w[1] != NONE || b == 2 && enlist_ok[2])
#define voted (answer[1] == YES)
#else
#define started(b) (w[b] != NONE)
#define voted (answer[1] == YES && answer[2] == YES)
#endif
#ifdef UNAWAITED
#define known true
#else
#define known (reply == OK)
#endif
inline ask(b) { if :: w[b] != NONE -> request[b] = Q_PREPARE :: else fi }
inline stop(b) { if :: request[b] == 0 && (w[b] == WORKING || w[b] == PREPARED) -> request[b] = Q_ROLLBACK :: else fi }
active proctype Client() {
end:	do
	CLIENT_MAY_STOP
	:: atomic { alive && at == 0 -> at = BEGIN;
#ifndef WORK_FIRST
		m_begin = true
#endif
		}
#ifdef WORK_FIRST
	:: atomic { alive && at == BEGIN && !m_begin -> m_begin = true }
	:: atomic { alive && at == BEGIN && m_begin && started(1) && started(2) && known -> at = VOTES; reply = 0; ask(1); ask(2) }
#else
	:: atomic { alive && at == BEGIN && reply == OK -> at = WORK; reply = 0;
#ifdef JOINED
		enlist_ok[1] = true; enlist_ok[2] = true
#endif
		}
#ifndef JOINED
	:: atomic { alive && at == WORK && !m_enlist[1] -> m_enlist[1] = true }
	:: atomic { alive && at == WORK && !m_enlist[2] -> m_enlist[2] = true }
#endif
	:: atomic { alive && at == WORK && started(1) && started(2) -> at = VOTES; enlist_ok[2] = false; reply = 0; ask(1);
#ifndef SERVICE
		ask(2)
#endif
		}
	:: atomic { alive && at == WORK -> at = ABORT }
#endif
	:: atomic { alive && startable(1) -> w[1] = WORKING; enlist_ok[1] = false }
#ifndef SERVICE
	:: atomic { alive && startable(2) && row != BARRIER -> w[2] = WORKING; enlist_ok[2] = false } /* else the insert of the marker row is refused */
#endif
	:: atomic { alive && at == BEGIN -> at = ABORT }
	:: atomic { alive && at == VOTES && voted -> at = DECIDE; answer[1] = 0; answer[2] = 0; m_commit = true }
	:: atomic { alive && at == VOTES -> at = ABORT; /* a no, an answer that is lost, or the end of its time */
		answer[1] = 0; answer[2] = 0 }
	:: atomic { alive && at == DECIDE && reply == COMMIT -> told = COMMIT; at = FINISH; reply = 0 }
	:: atomic { alive && at == DECIDE && reply == ROLLBACK -> told = ROLLBACK; at = DONE; reply = 0; stop(1); stop(2) }
	:: atomic { alive && at == DECIDE -> at = ASK; m_rollback = true; reply = 0; /* refused, not found, or in doubt */
#ifdef NOT_FOUND_IS_END
		told = ROLLBACK
#endif
		}
	:: atomic { alive && at == FINISH -> at = REPORT;
		if :: w[1] == PREPARED -> request[1] = Q_COMMIT :: else fi;
#ifndef SERVICE
		if :: w[2] == PREPARED -> request[2] = Q_COMMIT :: else fi
#endif
		}
	:: atomic { alive && at == REPORT && (w[1] == COMMITTED_B || w[2] == COMMITTED_B) -> at = DONE; m_report = true }
	:: atomic { alive && at == ABORT -> at = DONE; told = ROLLBACK; m_rollback = true; reply = 0; /* Tx.abort: no vote of it was sent */
		answer[1] = 0; answer[2] = 0; enlist_ok[1] = false; enlist_ok[2] = false; stop(1); stop(2) }
	:: atomic { alive && at == ASK && reply == ROLLBACK -> told = ROLLBACK; at = DONE; reply = 0 }
	:: atomic { alive && at == ASK && reply == COMMIT -> told = COMMIT; at = DONE; reply = 0 }
	:: atomic { alive && at == ASK && reply == NOT_FOUND -> at = DONE; reply = 0 }
	od
}

/* Recovery. A worker asks the log, calls the participant, and reports, in separate steps. With
   CONCURRENT the leader drives, and sweeps and prunes, at the same time; otherwise one after the
   other, and there is a worker of a deposed leader, which does one round, at any time after it has
   asked the log, and reports to no log. A leader that crashes is one that stops between two steps: its
   report gets lost, and the next leader goes on. */
#define LEADER 0
#define DRIVER 1
#define VISITOR 2
#define DEPOSED 3
#define deposed (role == DEPOSED)
inline otherwise(b) { /* the branch has ended otherwise than decided */
	if
	:: restored -> done = false;
		if
		:: !deposed && life == restored -> heuristic = true; finished[b] = true; finish()
		:: else
		LOST
		fi
	:: !restored && (life != restored || deposed) -> done = false
	:: !restored && !deposed -> VIOLATED(false_heuristic)
#ifdef DEPOSED_REPORTS
	:: !restored && deposed -> VIOLATED(false_heuristic)
#endif
	fi
}
inline driveCommit(b) {
#ifdef ROWS
	if
	:: b == 1
	:: b == 2 -> seen = row      /* task.commit reads the row, then the list; task.notPrepared the row again */
	fi;
	if
	:: b == 2 && seen == ROW -> done = true
	:: b == 2 && seen != ROW && w[2] != PREPARED -> atomic { if :: row == ROW -> done = true :: else -> otherwise(2) fi }
	:: b == 2 && seen != ROW && w[2] == PREPARED -> atomic { if :: w[2] == PREPARED -> endBranch(2, COMMITTED_B); done = true :: else fi }
	:: b == 1 ->
#endif
		atomic { if
		:: w[b] == PREPARED -> endBranch(b, COMMITTED_B); done = true
		:: w[b] == COMMITTED_B || w[b] == READ_ONLY_B -> done = true
		:: else -> otherwise(b)
		fi }
#ifdef ROWS
	fi;
	seen = 0
#endif
}
inline driveRollback(b) {
#ifdef ROWS
	if
	:: b == 1
	:: b == 2 -> seen = row      /* task.rollbackByBarrier */
	fi;
	if
	:: b == 2 && seen == ROW -> atomic { otherwise(2) }
	:: b == 2 && seen == BARRIER && barrierProves -> done = true
	:: b == 2 && seen == BARRIER && !barrierProves -> atomic { otherwise(2) }
	:: b == 2 && seen == NO_ROW -> atomic { if
		:: !locked && row == NO_ROW && !rowMayBeGone -> row = BARRIER; done = true
		:: !locked && row == NO_ROW && rowMayBeGone -> row = BARRIER; otherwise(2)
		:: !locked && row != NO_ROW      /* the next attempt reads it */
		:: locked -> seen = 3
		fi };
		if
		:: seen == 3 && w[2] == PREPARED -> atomic { if :: w[2] == PREPARED -> endBranch(2, ROLLED_BACK_B); done = true :: else fi }
		:: seen == 3 && w[2] == WORKING -> atomic { if :: w[2] == WORKING -> w[2] = ROLLED_BACK_B; request[2] = 0 :: else fi }; /* task.fence */
#if defined(RESTORED) && !defined(NO_MARK)
			/* the next attempt of the same call knows that the row was there (task.seenHeld) */
			atomic { if :: !locked && row == NO_ROW -> row = BARRIER; done = true :: else fi }
#endif
		:: seen != 3 || w[2] != PREPARED && w[2] != WORKING
		fi
	:: b == 1 ->
#endif
		atomic { if
		:: w[b] == PREPARED -> endBranch(b, ROLLED_BACK_B); done = true
		:: w[b] == WORKING -> done = true; if :: w[b] = ROLLED_BACK_B; request[b] = 0 :: true /* it is not fenced */ fi
		:: w[b] == COMMITTED_B -> otherwise(b)
		:: w[b] == NONE -> done = true;
#if defined(SERVICE) && !defined(NO_BARRIER)
			if :: b == 2 -> w[2] = ROLLED_BACK_B :: else fi /* never-prepared: a later prepare is refused */
#endif
		:: else -> done = true
		fi }
#ifdef ROWS
	fi;
	seen = 0
#endif
}
/* The leader's call to the service, and its vote (recovery/call.prepare, machine.vote). */
inline drivePrepare() {
	atomic { if
	:: w[2] == NONE -> if :: w[2] = PREPARED :: w[2] = ROLLED_BACK_B :: w[2] = READ_ONLY_B fi
	:: else
	fi;
	seen = (w[2] == ROLLED_BACK_B -> NO : YES) };
	atomic { if
	:: !deposed && life == restored && tx == PREPARING && seen == YES -> decideCommit()
	:: !deposed && life == restored && tx == PREPARING && seen == NO -> finished[2] = true; decideRollback()
	:: else
	LOST
	fi; seen = 0 }
}
inline drive() {
	atomic { todo = 0;
		if :: !paused && enlisted[b] && !finished[b] -> todo = tx :: else fi;
		life = restored;
		if :: b == 2 && !deposed && todo > ACTIVE -> calling = true :: else fi };
	if
	:: todo == COMMITTING -> driveCommit(b)
	:: todo == ROLLING_BACK -> driveRollback(b)
#ifdef SERVICE
	:: todo == PREPARING && b == 2 -> drivePrepare()
	:: todo == PREPARING && b == 1
#else
	:: todo == PREPARING
#endif
	:: todo <= ACTIVE || todo == COMMITTED || todo == ROLLED_BACK
	fi;
	atomic { if
	:: done && !deposed && life == restored && tx == todo && (todo == COMMITTING || todo == ROLLING_BACK) -> finished[b] = true; finish()
	:: else
	LOST
	fi;
	if :: b == 2 && !deposed -> calling = false :: else fi;
	done = false; todo = 0; life = false }
}
/* scan.Scan: list, ask the log, list again; plan.OrphanAction. */
#define LEAVE 0
#define PRESUMED 3   /* rolled back because the log does not know it */
#ifdef TICKS
#define tooOld past_mark
#define mayLeave !past_mark
#else
#ifdef LIVE
#define tooOld past_mark
#define mayLeave !past_mark
#else
#define tooOld true
#define mayLeave true
#endif
#endif
inline lookup(b) {
	if
#ifdef SWEPT_AFTER_RESTORE
	:: !paused && tx == UNKNOWN && tooOld -> todo = PRESUMED
#else
	:: !paused && tx == UNKNOWN && !restored && tooOld -> todo = PRESUMED
	:: !paused && tx == UNKNOWN && restored -> todo = LEAVE /* MayPredateBackup */
#endif
	:: !paused && tx == UNKNOWN && mayLeave -> todo = LEAVE
	:: !paused && (tx == COMMITTING || tx == COMMITTED) && enlisted[b] && finished[b] -> todo = COMMIT
	:: !paused && (tx == ROLLING_BACK || tx == ROLLED_BACK) && (!enlisted[b] || finished[b]) -> todo = ROLLBACK
	:: else -> todo = LEAVE
	fi
}
inline sweep(b) {
	life = restored;
#ifdef LOG_FIRST
	atomic { lookup(b) };
	if :: todo != LEAVE -> listed = (w[b] == PREPARED) :: else fi;
#else
	listed = (w[b] == PREPARED);
	if :: listed -> atomic { lookup(b) } :: else fi;
#endif
#ifndef ONE_LOOK
	if :: listed && todo != LEAVE -> listed = (w[b] == PREPARED) :: else fi;
#endif
	if
	:: !listed || todo == LEAVE
	:: listed && (todo == ROLLBACK || todo == PRESUMED) -> atomic {
		/* a call of the old cluster that arrives after the restore carries out what its log had */
		REQUIRE(commit_swept, todo != PRESUMED || life != restored || decision != COMMIT);
		if
		:: w[b] == PREPARED -> endBranch(b, ROLLED_BACK_B)
		:: w[b] == COMMITTED_B && tx != UNKNOWN -> otherwise(b)
		:: else
		fi }
	:: listed && todo == COMMIT -> atomic { if
		:: w[b] == PREPARED -> endBranch(b, COMMITTED_B)
		:: w[b] == ROLLED_BACK_B -> otherwise(b)
#ifdef ROWS
		:: w[b] == COMMITTED_B && b == 2 && row == NO_ROW -> otherwise(b) /* the proof is gone */
		:: w[b] == COMMITTED_B && (b == 1 || row != NO_ROW)
#else
		:: w[b] == COMMITTED_B
#endif
		fi }
	fi;
	atomic { listed = false; todo = 0; life = false; done = false }
}
/* scan.Prune: see rows, ask the log, ask whether a call is under way, remove. */
inline prune() {
	life = restored;
	if :: !locked && row != NO_ROW -> listed = true :: else fi;
	if
	:: listed -> atomic { if
		:: !paused && (tx == COMMITTED || tx == ROLLED_BACK) && !heuristic
		:: !paused && tx == UNKNOWN && !restored && tooOld
		:: else -> listed = false
		fi }
	:: else
	fi;
#ifndef PRUNE_WHILE_BUSY
#ifdef LATE_LOOKUP
	if :: listed && calling && !deposed -> listed = false :: else fi;
#else
	/* A deposed leader asked the log when it led. Calls under way were its own then, and a later leader
	   begins none for a transaction that is finished. */
	if :: listed && calling -> listed = false :: else fi;
#endif
#endif
	atomic { if :: listed && !locked -> row = NO_ROW :: else fi; listed = false; life = false }
}
#if defined(ROWS) && !defined(NO_PRUNE)
#define JOBS 4
#else
#define JOBS 3
#endif
proctype Recovery(byte role) {
	byte b = 1, todo, seen, job;
	bool listed, done, life;
end:	do
	:: true ->
#ifdef LIVE
		if
		:: role == LEADER -> job = (job + 1) % JOBS; if :: job == 0 -> b = 3 - b :: else fi
		:: role == DEPOSED -> if :: job = 0 :: job = 1 :: job = 2 fi; if :: b = 1 :: b = 2 fi
		fi;
#else
		if
		:: role != VISITOR -> job = 0
		:: role != DRIVER -> job = 1
		:: role != DRIVER -> job = 2
#if JOBS == 4
		:: role != DRIVER -> job = 3
#endif
		fi;
		if :: b = 1 :: b = 2 fi;
#endif
		if
		:: job == 0 -> drive()
#ifndef NO_SWEEP
		:: job == 1 -> sweep(1)
#ifdef NO_LIST
		:: job == 2
#else
		:: job == 2 -> sweep(2)
#endif
#else
		:: job == 1 || job == 2
#endif
#if JOBS == 4
		:: job == 3 -> prune()
#endif
		fi;
		atomic {
#ifndef LIVE
			b = 1; job = 0;
#endif
			if :: role == DEPOSED -> break :: else fi }
	od
}
#ifdef RESTORED
/* A backup is taken at some time, and restored at a later one; the nodes of the old cluster run no
   more, but the call that the leader was making may still arrive (life). An operator resumes recovery some time, or never. */
active proctype Operator() {
	byte backup; bool e1, e2, f1, f2;
end:	atomic { backup = tx; e1 = enlisted[1]; e2 = enlisted[2]; f1 = finished[1]; f2 = finished[2] };
	atomic { tx = backup; enlisted[1] = e1; enlisted[2] = e2; finished[1] = f1; finished[2] = f2;
		restored = true; paused = true; calling = false;
		marked = (tx == ACTIVE || tx == PREPARING || tx == COMMITTING); /* Transaction.MarkRestored */
#ifndef SAME_EPOCH
		past_mark = true;            /* the mark is of another epoch */
#endif
		backup = 0; e1 = 0; e2 = 0; f1 = 0; f2 = 0 };
	paused = false
}
#endif
init { atomic {
	run Session(1);
#ifndef SERVICE
	run Session(2);
#endif
#ifdef CONCURRENT
	run Recovery(DRIVER); run Recovery(VISITOR)
#else
	run Recovery(LEADER);
#if (!defined(LIVE) || defined(SERVICE)) && !defined(RESTORED)
	run Recovery(DEPOSED)
#endif
#endif
	} }
#ifdef REACH_PROVED
/* What is proved after a restore is no heuristic outcome, although the transaction is marked. */
active proctype Proved() {
end:	atomic { restored && marked && !heuristic && tx == REACH_PROVED && w[2] == (REACH_PROVED == COMMITTED -> COMMITTED_B : ROLLED_BACK_B) -> end_reached = true; assert(!end_reached) }
}
#endif
#ifdef LIVE
ltl nothing_stays_prepared { (!<>[](w[1] == PREPARED)) && (!<>[](w[2] == PREPARED)) }
#endif
