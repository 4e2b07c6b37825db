/* What the models share: branches, sessions, the client's knowledge, and the properties.

   One transaction with two branches, 1 and 2. w[b] is what the participant has of branch b, its
   durable state and that of its session together. */
#define NONE 0        /* no session has started it */
#define WORKING 1     /* a session has work of it, which is lost with the session or the participant */
#define PREPARED 2    /* survives everything, and holds locks */
#define COMMITTED_B 3
#define ROLLED_BACK_B 4
#define READ_ONLY_B 5 /* voted read-only, and takes no further part */
byte w[3];

/* The request of the application that is in flight on the session of a branch: it is executed at
   any later time, also after the application died, but not twice, and not after the session ended. */
#define Q_PREPARE 1
#define Q_ONE_PHASE 2
#define Q_COMMIT 3
#define Q_ROLLBACK 4
byte request[3];

/* The answer to it, as the application has received it. */
#define YES 1
#define NO 2
byte answer[3];

/* Replies of the coordinator to the call for which the client waits, outcomes, and decisions. */
#define COMMIT 1
#define ROLLBACK 2
#define NOT_FOUND 3
#define OK 4
#define FORGOTTEN 5   /* a begin that is refused: the id is unknown, and its mark is before the horizon */
#define REFUSED 6     /* nothing was changed */
byte reply;

byte told;            /* the outcome that the client has told its user: 0, COMMIT or ROLLBACK */
byte decision;        /* the first decision of the log; no process reads it */
byte forgotten;       /* the outcome that the log has forgotten; no process reads it */
bool begun;           /* the log has begun the transaction once; no process reads it */
byte at;              /* where the client is in its program */

bool past_mark;       /* the retention horizon is past the mark of the transaction's id */

/* For liveness a client dies (its sessions end some time) or hangs with its sessions open. For
   safety a client that takes no further step is either. */
bool dead, hung;
#define alive (!dead && !hung)

/* The properties. A search checks all of them, or with ONLY those that are given as
   -DCHECK_name=1. The name of a violated one is in the text of the assertion. */
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
#ifndef CHECK_begun_twice
#define CHECK_begun_twice ALWAYS
#endif
#ifndef CHECK_commit_swept
#define CHECK_commit_swept ALWAYS
#endif
#ifndef CHECK_false_heuristic
#define CHECK_false_heuristic ALWAYS
#endif
#ifndef CHECK_decided_twice
#define CHECK_decided_twice ALWAYS
#endif
#ifndef CHECK_unnoticed
#define CHECK_unnoticed ALWAYS
#endif
bool not_atomic;      /* one branch is committed, and the other one rolled back */
bool told_otherwise;  /* a branch has ended otherwise than the client has told its user */
bool begun_twice;     /* the log begins the transaction again after it had forgotten its outcome */
bool commit_swept;    /* a sweep takes a branch to be rolled back of which the log has decided the commit */
bool false_heuristic; /* recovery takes a branch to have ended otherwise than decided */
bool decided_twice;   /* the log decides otherwise than before, or than the client was told */
bool unnoticed;       /* finished without a heuristic outcome, although a branch ended otherwise */
bool end_reached;         /* the state that a search has to reach */

#define VIOLATED(property) if :: CHECK_##property -> property = true; assert(!property) :: else fi
#define REQUIRE(property, condition) if :: CHECK_##property && !(condition) -> property = true; assert(!property) :: else fi

#define mixed ((w[1] == COMMITTED_B && w[2] == ROLLED_BACK_B) || (w[1] == ROLLED_BACK_B && w[2] == COMMITTED_B))
#define told_wrong ((told == COMMIT && (w[1] == ROLLED_BACK_B || w[2] == ROLLED_BACK_B)) || (told == ROLLBACK && (w[1] == COMMITTED_B || w[2] == COMMITTED_B)))

/* Blocked as long as nothing is wrong. */
#ifndef LIVE
active proctype Atomic() {
end:	atomic { CHECK_not_atomic && mixed -> VIOLATED(not_atomic) }
}
active proctype Told() {
end:	atomic { CHECK_told_otherwise && told_wrong -> VIOLATED(told_otherwise) }
}
#endif
/* What time does, each at any moment, so that all timeouts and retentions are covered. */
#define HORIZON_PASSES :: atomic { !past_mark -> past_mark = true }
#ifdef LIVE
#define CLIENT_MAY_STOP :: atomic { alive -> if :: dead = true :: hung = true fi }
#define LOST               /* for liveness a report of recovery is not lost for ever */
#else
#define CLIENT_MAY_STOP
#define LOST :: true
#endif

/* A good end that a search has to reach, so that the others do not hold for want of it: of both
   branches, or of branch 2 where there is no other. */
#ifdef REACH
#if REACH == COMMIT
#define good_end (told == COMMIT && w[1] == COMMITTED_B && w[2] == COMMITTED_B && forgotten == COMMIT)
#else
#define good_end (told == ROLLBACK && w[1] == ROLLED_BACK_B && w[2] == ROLLED_BACK_B && forgotten == ROLLBACK)
#endif
#endif
#ifdef REACH_ONE
#if REACH_ONE == COMMIT
#define good_end (told == COMMIT && w[2] == COMMITTED_B && forgotten == COMMIT)
#else
#define good_end (told == ROLLBACK && w[2] == ROLLED_BACK_B && forgotten == ROLLBACK)
#endif
#endif
#ifdef good_end
active proctype Reach() {
end:	atomic { good_end -> end_reached = true; assert(!end_reached) }
}
#endif

/* A reply reaches the client, if it still waits there; or it gets lost. */
inline send(place, value) { if :: at == place -> reply = value :: true fi }
