/* The last participant decides. Branch 2, which has a marker row, is appointed in its
   enlistment; branch 1 prepares; then branch 2 decides by its one-phase commit. The log knows that
   before any branch prepares: so the code does it with Options.LastDecides. How the appointment comes to branch 2 is in
   moved.pml. Planned: with ANNOUNCED the begin is sent and not awaited, and may be lost; the sweep then
   asks the marker row.

   Variants: ROW_FIRST=0, 1 or 2 (the row of branch 2 is inserted at any time before its commit;
   before branch 1 is asked to prepare; before the begin that appoints it is sent, the default);
   PRUNE_KEEPS (the row of a transaction that the log does not know is pruned only when the
   horizon is past its mark, and no participant lists a branch of it); ADOPT (the sweep begins in the
   log what it finds unknown with the row locked); ADOPT_ALL (whatever it finds unknown);
   NO_BARRIER, which is harmless if the row is first.
   Mistakes: NO_HORIZON, UNAWAITED, EARLY_COMMIT, NO_SETTLE, NOT_FOUND_IS_END, PRUNE_WHILE_BUSY,
   ADOPT_LATE, PRUNE_BY_HORIZON and PRUNE_BY_LIST (half of PRUNE_KEEPS each). */
#include "common.pml"

#define UNKNOWN 0
#define ACTIVE 1      /* undecided, branch 2 is appointed */
#define TO_SETTLE 2   /* the deadline has passed, or a rollback was requested: only the end of branch 2 is accepted */
#define COMMITTING 3
#define COMMITTED 4
#define ROLLING_BACK 5
#define ROLLED_BACK 6
byte tx;

#define NO_ROW 0
#define LOCKED 1      /* inserted by the branch, not committed */
#define ROW 2         /* committed with the branch */
#define BARRIER 3     /* the branch's insert fails */
byte row;
bool m_begin, m_rollback, m_report;
byte busy;            /* the leader's calls for branch 2, from asking the log until the report is taken */

#define WORK 1
#define VOTES 2
#define VOTED 3
#define END 4
#define FINISH 5
#define REPORT 6
#define ABORT 7
#define WAIT 8
#define DONE 9

#ifndef ROW_FIRST
#define ROW_FIRST 2
#endif
#ifdef PRUNE_KEEPS
#define keepsRow (listed || !past_mark)
#endif
#ifdef PRUNE_BY_HORIZON
#define keepsRow (!past_mark)
#endif
#ifdef PRUNE_BY_LIST
#define keepsRow listed
#endif
#ifdef ADOPT_LATE
#define mayAdopt true
#else
#define mayAdopt (!past_mark)
#endif
#ifdef NO_HORIZON
#define mayForget true
#else
#define mayForget past_mark
#endif

inline decideCommit() { REQUIRE(decided_twice, decision != ROLLBACK && told != ROLLBACK); decision = COMMIT; tx = COMMITTING }
inline decideRollback() { REQUIRE(decided_twice, decision != COMMIT && told != COMMIT); decision = ROLLBACK; tx = ROLLING_BACK }
inline onBegin() {
	if
#ifdef NO_HORIZON
	:: tx == UNKNOWN -> REQUIRE(begun_twice, !begun || forgotten == 0); begun = true; tx = ACTIVE; send(WORK, OK)
#else
	:: tx == UNKNOWN && past_mark -> send(WORK, FORGOTTEN)
	:: tx == UNKNOWN && !past_mark -> REQUIRE(begun_twice, forgotten == 0); begun = true; tx = ACTIVE; send(WORK, OK)
#endif
	:: tx == ACTIVE -> send(WORK, OK)
	:: tx == TO_SETTLE
	:: tx == COMMITTING || tx == COMMITTED -> send(WORK, COMMIT)
	:: tx == ROLLING_BACK || tx == ROLLED_BACK -> send(WORK, ROLLBACK)
	fi
}
active proctype Network() {
end:	do
	:: atomic { m_begin -> onBegin() }
	:: atomic { m_rollback ->
		if
		:: tx == UNKNOWN -> send(WAIT, NOT_FOUND)
#ifdef NO_SETTLE
		:: tx == ACTIVE -> decideRollback(); send(WAIT, ROLLBACK)
#else
		:: tx == ACTIVE -> tx = TO_SETTLE
#endif
		:: tx == TO_SETTLE
		:: tx == COMMITTING || tx == COMMITTED -> send(WAIT, COMMIT)
		:: tx == ROLLING_BACK || tx == ROLLED_BACK -> send(WAIT, ROLLBACK)
		fi }
	:: atomic { m_report ->
		if
		:: tx == UNKNOWN
		:: tx == ACTIVE || tx == TO_SETTLE -> decideCommit(); tx = COMMITTED
		:: tx == COMMITTING -> tx = COMMITTED
		:: tx == COMMITTED
		:: tx == ROLLING_BACK || tx == ROLLED_BACK -> VIOLATED(false_heuristic)
		fi }
	od
}
/* The deadline, at any time after the begin (machine.expireBatch); the horizon; and the end of the retention. */
active proctype Time() {
end:	do
	:: atomic { tx == ACTIVE ->
#ifdef NO_SETTLE
	decideRollback()
#else
	tx = TO_SETTLE
#endif
	}
	HORIZON_PASSES
	:: atomic { (tx == COMMITTED || tx == ROLLED_BACK) && mayForget -> forgotten = (tx == COMMITTED -> COMMIT : ROLLBACK); tx = UNKNOWN }
	od
}
active proctype Session1() {
	byte a;
end:	do
	:: atomic { request[1] == Q_PREPARE -> request[1] = 0;
		if
		:: w[1] == WORKING -> if :: w[1] = PREPARED; a = YES :: w[1] = ROLLED_BACK_B; a = NO fi
		:: else -> a = NO
		fi;
		if :: at == VOTES -> answer[1] = a :: true fi; a = 0 }
	:: atomic { request[1] == Q_COMMIT -> request[1] = 0; if :: w[1] == PREPARED -> w[1] = COMMITTED_B :: else fi }
	:: atomic { request[1] == Q_ROLLBACK -> request[1] = 0; if :: w[1] == WORKING || w[1] == PREPARED -> w[1] = ROLLED_BACK_B :: else fi }
	:: atomic { w[1] == WORKING -> w[1] = ROLLED_BACK_B; request[1] = 0 }
	:: atomic { request[1] != 0 && w[1] != WORKING -> request[1] = 0 }
	od
}
active proctype Session2() {
end:	do
	:: atomic { request[2] == Q_ONE_PHASE -> request[2] = 0;
		if
		:: w[2] == WORKING ->
			if
			:: w[2] = COMMITTED_B; row = ROW; if :: at == END -> answer[2] = YES :: true fi
			:: w[2] = ROLLED_BACK_B; row = NO_ROW; if :: at == END -> answer[2] = NO :: true fi
			fi
		:: else
		fi }
	:: atomic { request[2] == Q_ROLLBACK -> request[2] = 0; if :: w[2] == WORKING -> w[2] = ROLLED_BACK_B; row = NO_ROW :: else fi }
	:: atomic { w[2] == WORKING && !hung -> w[2] = ROLLED_BACK_B; row = NO_ROW; request[2] = 0 } /* the session of a client that hangs stays */
	od
}
#if defined(ANNOUNCED) || defined(UNAWAITED)
#define known true
#else
#define known (reply == OK)
#endif
#define startable (w[2] == NONE && row == NO_ROW)
active proctype Client() {
end:	do
	CLIENT_MAY_STOP
	:: atomic { alive && at == 0 -> at = WORK }
	:: atomic { alive && at == WORK && w[1] == NONE -> w[1] = WORKING }
	:: atomic { alive && (at == WORK || at == VOTED) && startable -> w[2] = WORKING; row = LOCKED }
	:: atomic { alive && at == WORK && !m_begin && (ROW_FIRST < 2 || w[2] != NONE) -> m_begin = true }
#ifdef EARLY_COMMIT
	:: atomic { alive && at == WORK && m_begin && known && w[1] != NONE && w[2] != NONE -> at = END; reply = 0; request[1] = Q_PREPARE; request[2] = Q_ONE_PHASE }
#endif
	:: atomic { alive && at == WORK && m_begin && known && w[1] != NONE && (ROW_FIRST < 1 || w[2] != NONE) -> at = VOTES; reply = 0; request[1] = Q_PREPARE }
	:: atomic { alive && at == WORK -> at = ABORT; reply = 0 }
	:: atomic { alive && at == VOTES && answer[1] == YES -> at = VOTED; answer[1] = 0 }
	:: atomic { alive && at == VOTES -> at = ABORT; answer[1] = 0 }
	:: atomic { alive && at == VOTED && w[2] != NONE -> at = END; request[2] = Q_ONE_PHASE } /* does nothing if the session is gone */
	:: atomic { alive && at == VOTED -> at = ABORT }
	:: atomic { alive && at == END && answer[2] == YES -> told = COMMIT; at = FINISH; answer[2] = 0 }
	:: atomic { alive && at == END && answer[2] == NO -> at = ABORT; answer[2] = 0 }      /* the server refused: it did not commit */
	:: atomic { alive && at == END -> at = WAIT; answer[2] = 0; m_rollback = true }       /* in doubt: the log settles, and the caller waits */
	:: atomic { alive && at == FINISH -> at = REPORT; request[1] = Q_COMMIT }
	:: atomic { alive && at == REPORT && w[1] == COMMITTED_B -> at = DONE; m_report = true }
	:: atomic { alive && at == ABORT -> at = DONE; told = ROLLBACK; m_rollback = true;    /* the commit was not sent, or was refused */
		if :: request[1] == 0 && w[1] != NONE -> request[1] = Q_ROLLBACK :: else fi;
		if :: request[2] == 0 && w[2] != NONE -> request[2] = Q_ROLLBACK :: else fi }
	:: atomic { alive && at == WAIT && reply == COMMIT -> told = COMMIT; at = FINISH; reply = 0 }
	:: atomic { alive && at == WAIT && reply == ROLLBACK -> told = ROLLBACK; at = DONE; reply = 0 }
	:: atomic { alive && at == WAIT && reply == NOT_FOUND -> reply = 0; at = DONE;
#ifdef NOT_FOUND_IS_END
		told = ROLLBACK
#endif
		}
	od
}
/* The leader; a worker of a deposed leader, which does one round at any time after it has asked the
   log, reports to no log, and does not prune; and a second worker of the leader, at the same time,
   with one round. */
#define LEADER 0
#define DEPOSED 1
#define SECOND 2
#define deposed (role == DEPOSED)
inline commit1() { atomic {
	if
	:: w[1] == PREPARED -> w[1] = COMMITTED_B
	:: w[1] == COMMITTED_B
	:: else -> VIOLATED(false_heuristic)
	fi }
}
inline rollback1() { atomic {
	if
	:: w[1] == PREPARED -> w[1] = ROLLED_BACK_B
	:: w[1] == WORKING -> if :: w[1] = ROLLED_BACK_B; request[1] = 0 :: true fi /* fenced, or its PREPARE arrives later */
	:: w[1] == COMMITTED_B -> VIOLATED(false_heuristic)
	:: else
	fi }
}
inline fence2() { if :: w[2] == WORKING -> w[2] = ROLLED_BACK_B; row = NO_ROW; request[2] = 0 :: else fi }
inline report(end) { atomic {
	if
	:: !deposed && end == COMMIT -> if :: tx == ACTIVE || tx == TO_SETTLE -> decideCommit() :: tx == ROLLING_BACK || tx == ROLLED_BACK -> VIOLATED(false_heuristic) :: else fi
	:: !deposed && end == ROLLBACK -> if :: tx == ACTIVE || tx == TO_SETTLE -> decideRollback() :: tx == COMMITTING || tx == COMMITTED -> VIOLATED(false_heuristic) :: else fi
	:: else
	fi;
	end = 0 }
}
inline barrier(end) { atomic { /* one INSERT */
	if
#ifdef NO_BARRIER
	:: row == NO_ROW || row == BARRIER -> end = ROLLBACK
#else
	:: row == NO_ROW -> row = BARRIER; end = ROLLBACK
	:: row == BARRIER -> end = ROLLBACK
#endif
	:: row == ROW -> end = COMMIT
	:: row == LOCKED -> end = 0
	fi }
}
inline settle(end) { /* look; end the session that holds the row; write the barrier; report */
	atomic { if :: row == ROW -> end = COMMIT :: row == BARRIER -> end = ROLLBACK :: else -> end = 0 fi };
	if
	:: end == 0 && row == LOCKED -> atomic { if :: row == LOCKED -> fence2() :: else fi }
	:: end == 0 && row != LOCKED -> barrier(end)
	:: end != 0
	fi;
	report(end); if :: !deposed -> busy-- :: else fi
}
inline adopt() { atomic { if :: tx == UNKNOWN && !deposed && mayAdopt -> tx = ACTIVE :: else fi } }
proctype Recovery(byte role) {
	byte known_as, end_, job;
	bool listed, past;
end:	do
	:: true ->
#ifdef LIVE
		job = (job + 1) % 3;
#else
		if :: job = 0 :: job = 1 :: !deposed -> job = 2 fi;
#endif
		if
		:: job == 0 -> /* drive */
			if
			:: tx == COMMITTING -> commit1(); atomic { if :: tx == COMMITTING && !deposed -> tx = COMMITTED :: else fi }
			:: tx == ROLLING_BACK -> rollback1();
#ifdef NO_SETTLE
				atomic { if :: w[2] == WORKING -> if :: fence2() :: true fi :: else fi };
#endif
				atomic { if :: tx == ROLLING_BACK && !deposed -> tx = ROLLED_BACK :: else fi }
			:: atomic { tx == TO_SETTLE -> if :: !deposed -> busy++ :: else fi }; settle(end_)
			:: atomic { tx == ACTIVE -> if :: !deposed -> busy++ :: else fi }; /* after the grace: looks, and fences nothing */
				atomic { if :: row == ROW -> end_ = COMMIT :: else fi }; report(end_); if :: !deposed -> busy-- :: else fi
			:: tx == UNKNOWN || tx == COMMITTED || tx == ROLLED_BACK
			fi
		:: job == 1 -> /* sweep of participant 1: one reading tells whether the log knows it, and where the horizon is */
			listed = (w[1] == PREPARED);
			if :: listed -> atomic { known_as = tx; past = past_mark } :: else fi;
			if :: listed -> listed = (w[1] == PREPARED) :: else fi;
			if
			:: !listed
			:: listed && (known_as == ACTIVE || known_as == TO_SETTLE || known_as == COMMITTING || known_as == ROLLING_BACK)
			:: listed && known_as == COMMITTED -> atomic { if :: w[1] == PREPARED -> w[1] = COMMITTED_B :: else fi }
			:: listed && known_as == ROLLED_BACK -> atomic { if :: w[1] == PREPARED -> w[1] = ROLLED_BACK_B :: else -> REQUIRE(commit_swept, w[1] != COMMITTED_B) fi }
			:: listed && known_as == UNKNOWN ->
#ifndef ANNOUNCED
				atomic { if :: w[1] == PREPARED -> REQUIRE(commit_swept, decision != COMMIT); w[1] = ROLLED_BACK_B :: else fi }
#else
				end_ = 0;
				if
#ifdef ADOPT_ALL
				:: !past -> adopt(); end_ = 9
				:: past -> atomic { end_ = row }
#else
				:: true -> atomic { end_ = row }
#endif
				fi;
				if
				:: end_ == NO_ROW -> barrier(end_)
				:: end_ == ROW -> end_ = COMMIT
				:: end_ == BARRIER -> end_ = ROLLBACK
				:: end_ == 9 -> end_ = 0
				:: end_ == LOCKED -> end_ = 0;
#ifdef ADOPT
					if
					:: !past -> adopt()
					:: past -> atomic { fence2() }  /* no begin of it can be accepted any more */
					fi
#endif
				fi;
				if
				:: end_ == COMMIT -> commit1()
				:: end_ == ROLLBACK -> atomic { if :: w[1] == PREPARED -> w[1] = ROLLED_BACK_B :: else fi }
				:: else
				fi; end_ = 0
#endif
			fi
		:: job == 2 -> /* prune participant 2: see the row, list, ask the log, ask whether a call is under way, remove */
			atomic { if :: row == ROW || row == BARRIER -> end_ = row :: else fi };
#ifdef keepsRow
			if :: end_ != 0 -> listed = (w[1] == PREPARED) :: else fi;
			if :: end_ != 0 -> atomic { known_as = ((tx == UNKNOWN && keepsRow) -> ACTIVE : tx) } :: else fi;
#else
			if :: end_ != 0 -> known_as = tx :: else fi;
#endif
			if
			:: end_ != 0 && (known_as == UNKNOWN || known_as == COMMITTED || known_as == ROLLED_BACK) -> atomic { if
#ifdef PRUNE_WHILE_BUSY
				:: row == end_ -> row = NO_ROW
#else
				:: row == end_ && busy == 0 -> row = NO_ROW
#endif
				:: else
				fi }
			:: end_ == 0 || !(known_as == UNKNOWN || known_as == COMMITTED || known_as == ROLLED_BACK)
			fi
		fi;
		atomic { known_as = 0; listed = false; end_ = 0; past = false;
#ifndef LIVE
			job = 0;
#endif
			if :: role != LEADER -> break :: else fi }
	od
}
init { atomic { run Recovery(LEADER); run Recovery(DEPOSED);
#ifndef LIVE
	run Recovery(SECOND)
#endif
	} }
#ifdef LIVE
ltl nothing_stays_prepared { !<>[](w[1] == PREPARED) }
#endif
