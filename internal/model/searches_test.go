package model

// search is one run of Spin.
type search struct {
	model, name string
	flags       string // of the model; see the comment at its top
	only        bool   // nothing is checked but what has to be found
	live        bool   // under weak fairness, with the temporal formula of the model
	finds       string // the property that has to be violated; empty: nothing may be found
	long        bool   // more than half a million states: not run with -short
}

// end is found by searches that have to reach a good end.
const end = "end_reached"

// stays is found where a temporal formula is violated.
const stays = "acceptance cycle"

// searches are all runs. Names of searches with a mistake begin with "mistake".
var searches = []search{
	// What the code does.
	{model: "twophase", name: "no marker row", flags: "PLAIN", long: true},
	{model: "twophase", name: "marker row", long: true},
	{model: "twophase", name: "marker row, pruned while driven", flags: "CONCURRENT", long: true},
	{model: "twophase", name: "service", flags: "SERVICE", long: true},
	{model: "twophase", name: "no marker row, nothing stays", flags: "PLAIN JOINED", live: true, long: true},
	{model: "twophase", name: "service, nothing stays", flags: "SERVICE JOINED", live: true, long: true},
	{model: "twophase", name: "reaches committed", flags: "PLAIN REACH=COMMIT", finds: end},
	{model: "twophase", name: "reaches rolled back", flags: "PLAIN REACH=ROLLBACK", finds: end},
	{model: "twophase", name: "reaches committed, marker row", flags: "REACH=COMMIT", finds: end},
	{model: "twophase", name: "reaches rolled back, marker row", flags: "REACH=ROLLBACK", finds: end},
	{model: "twophase", name: "reaches committed, pruned while driven", flags: "CONCURRENT REACH=COMMIT", finds: end, long: true},
	{model: "twophase", name: "reaches committed, service", flags: "SERVICE REACH=COMMIT", finds: end},

	// The mistakes that its rules exclude.
	{model: "twophase", name: "mistake: no horizon", flags: "PLAIN NO_HORIZON", only: true, finds: "begun_twice"},
	{model: "twophase", name: "mistake: no horizon, what it costs", flags: "PLAIN NO_HORIZON", only: true, finds: "told_otherwise"},
	{model: "twophase", name: "mistake: a later mark at each attempt", flags: "PLAIN LATER_MARK", only: true, finds: "begun_twice"},
	{model: "twophase", name: "mistake: sweep asks the log first", flags: "PLAIN LOG_FIRST", only: true, finds: "not_atomic"},
	{model: "twophase", name: "mistake: sweep looks once", flags: "PLAIN ONE_LOOK", only: true, finds: "commit_swept"},
	{model: "twophase", name: "mistake: not found is the end", flags: "PLAIN NOT_FOUND_IS_END", only: true, finds: "told_otherwise"},
	{model: "twophase", name: "mistake: no sweep", flags: "PLAIN JOINED NO_SWEEP", live: true, finds: stays},
	{model: "twophase", name: "mistake: a vote is not asked for", flags: "SERVICE VOTE_NOT_ASKED", only: true, finds: "false_heuristic"},
	{model: "twophase", name: "mistake: service without barrier and list", flags: "SERVICE JOINED NO_BARRIER NO_LIST", live: true, finds: stays, long: true},
	{model: "twophase", name: "mistake: prune beside a call", flags: "CONCURRENT PRUNE_WHILE_BUSY", only: true, finds: "false_heuristic", long: true},
	{model: "twophase", name: "mistake: a deposed leader reports", flags: "DEPOSED_REPORTS JOINED", only: true, finds: "false_heuristic", long: true},

	// Lookup confirms the leadership before it reads, and does not look afterwards whether it still leads.
	{model: "twophase", name: "mistake: a deposed leader prunes by a later reading", flags: "LATE_LOOKUP JOINED", only: true, finds: "false_heuristic", long: true},

	// A restored backup.
	{model: "twophase", name: "restored: begun once, presumed abort", flags: "RESTORED PLAIN CHECK_begun_twice=1 CHECK_commit_swept=1", only: true, long: true},
	{model: "twophase", name: "restored: atomicity may be lost", flags: "RESTORED PLAIN", only: true, finds: "not_atomic", long: true},
	{model: "twophase", name: "restored: no pruned proof is missed", flags: "RESTORED CONCURRENT JOINED CHECK_unnoticed=1", only: true, long: true},
	{model: "twophase", name: "restored: no proof is missed without prune", flags: "RESTORED CONCURRENT JOINED NO_PRUNE NO_MARK CHECK_unnoticed=1", only: true, long: true},
	{model: "twophase", name: "restored: reaches committed, proved", flags: "RESTORED CONCURRENT JOINED REACH_PROVED=COMMITTED", only: true, finds: end, long: true},
	{model: "twophase", name: "restored: reaches rolled back, proved", flags: "RESTORED CONCURRENT JOINED REACH_PROVED=ROLLED_BACK", only: true, finds: end, long: true},
	{model: "twophase", name: "mistake: restored without the mark", flags: "RESTORED CONCURRENT JOINED NO_MARK", only: true, finds: "unnoticed", long: true},
	{model: "twophase", name: "mistake: restored, and a barrier proves a rollback", flags: "RESTORED CONCURRENT JOINED BARRIER_PROVES", only: true, finds: "unnoticed", long: true},
	{model: "twophase", name: "mistake: restored with the epoch of before", flags: "RESTORED PLAIN SAME_EPOCH", only: true, finds: "begun_twice"},
	{model: "twophase", name: "mistake: restored, and unknown branches swept", flags: "RESTORED PLAIN SWEPT_AFTER_RESTORE", only: true, finds: "commit_swept"},

	{model: "delegated", name: "one-phase commit"},
	{model: "delegated", name: "second application", flags: "SECOND"},
	{model: "delegated", name: "pruned while driven", flags: "CONCURRENT"},
	{model: "delegated", name: "nothing stays", live: true, long: true},
	{model: "delegated", name: "nothing stays locked, without prune", flags: "LOCKS NO_PRUNE", live: true, long: true},
	{model: "delegated", name: "a branch that starts after its barrier was pruned stays", flags: "LOCKS", live: true, finds: stays},
	{model: "delegated", name: "reaches committed", flags: "REACH_ONE=COMMIT", finds: end},
	{model: "delegated", name: "reaches rolled back", flags: "REACH_ONE=ROLLBACK", finds: end},
	{model: "delegated", name: "reaches committed with two", flags: "SECOND REACH=COMMIT", finds: end},
	{model: "delegated", name: "mistake: the deadline decides", flags: "DEADLINE_DECIDES", only: true, finds: "told_otherwise"},
	{model: "delegated", name: "mistake: a rollback is taken", flags: "ROLLBACK_TAKEN", only: true, finds: "told_otherwise"},
	{model: "delegated", name: "mistake: Delegate not awaited", flags: "UNAWAITED", only: true, finds: "told_otherwise"},
	{model: "delegated", name: "mistake: beside another branch", flags: "SECOND BESIDE_OTHERS", only: true, finds: "not_atomic"},
	{model: "delegated", name: "mistake: an enlistment is taken", flags: "SECOND ENLIST_TAKEN", only: true, finds: "not_atomic"},
	{model: "delegated", name: "mistake: no barrier", flags: "NO_BARRIER", only: true, finds: "told_otherwise"},
	{model: "delegated", name: "mistake: no horizon", flags: "NO_HORIZON", only: true, finds: "begun_twice"},
	{model: "delegated", name: "mistake: not resolved at the deadline", flags: "LOCKS NO_RESOLVE NO_PRUNE", live: true, finds: stays},
	{model: "delegated", name: "mistake: prune beside a call", flags: "CONCURRENT PRUNE_WHILE_BUSY", only: true, finds: "false_heuristic"},

	// Begin and enlistments beside the work.
	{model: "twophase", name: "work first", flags: "PLAIN WORK_FIRST", long: true},
	{model: "twophase", name: "work first, nothing stays", flags: "PLAIN WORK_FIRST", live: true, long: true},
	{model: "twophase", name: "work first, known only at commit", flags: "PLAIN WORK_FIRST TICKS UNAWAITED", long: true},
	{model: "twophase", name: "work first, reaches committed", flags: "PLAIN WORK_FIRST REACH=COMMIT", finds: end},
	{model: "twophase", name: "mistake: work first, not awaited, swept by clocks", flags: "PLAIN WORK_FIRST UNAWAITED", only: true, finds: "not_atomic"},

	// One of several participants decides.
	{model: "lastparticipant", name: "awaited", long: true},
	{model: "lastparticipant", name: "awaited, nothing stays", live: true, long: true},
	{model: "lastparticipant", name: "awaited, reaches committed", flags: "REACH=COMMIT", finds: end},
	{model: "lastparticipant", name: "awaited, reaches rolled back", flags: "REACH=ROLLBACK", finds: end},
	{model: "lastparticipant", name: "awaited, no barrier, row first", flags: "NO_BARRIER", long: true},
	{model: "lastparticipant", name: "mistake: row at any time", flags: "ROW_FIRST=0", only: true, finds: "not_atomic"},
	{model: "lastparticipant", name: "mistake: row before prepare", flags: "ROW_FIRST=1", only: true, finds: "not_atomic"},
	{model: "lastparticipant", name: "mistake: no barrier, row at any time", flags: "NO_BARRIER ROW_FIRST=0", only: true, finds: "not_atomic"},
	{model: "lastparticipant", name: "mistake: no horizon", flags: "NO_HORIZON", only: true, finds: "begun_twice"},
	{model: "lastparticipant", name: "mistake: no horizon, what it costs", flags: "NO_HORIZON", only: true, finds: "told_otherwise"},
	{model: "lastparticipant", name: "mistake: not awaited", flags: "UNAWAITED", only: true, finds: "not_atomic"},
	{model: "lastparticipant", name: "mistake: commits before the other has voted", flags: "EARLY_COMMIT", only: true, finds: "not_atomic"},
	{model: "lastparticipant", name: "mistake: the deadline decides", flags: "NO_SETTLE", only: true, finds: "not_atomic"},
	{model: "lastparticipant", name: "mistake: not found is the end", flags: "NOT_FOUND_IS_END", only: true, finds: "told_otherwise"},
	{model: "lastparticipant", name: "mistake: prune beside a call", flags: "PRUNE_WHILE_BUSY", only: true, finds: "false_heuristic"},
	// The same with a begin that is not awaited, which is planned.
	{model: "lastparticipant", name: "announced, all adopted", flags: "ANNOUNCED PRUNE_KEEPS ADOPT ADOPT_ALL", long: true},
	{model: "lastparticipant", name: "announced, all adopted, nothing stays", flags: "ANNOUNCED PRUNE_KEEPS ADOPT ADOPT_ALL", live: true, long: true},
	{model: "lastparticipant", name: "announced, reaches committed", flags: "ANNOUNCED PRUNE_KEEPS ADOPT ADOPT_ALL REACH=COMMIT", finds: end},
	{model: "lastparticipant", name: "mistake: announced, pruned as today", flags: "ANNOUNCED", only: true, finds: "told_otherwise"},
	{model: "lastparticipant", name: "mistake: announced, pruned by the horizon alone", flags: "ANNOUNCED PRUNE_BY_HORIZON", only: true, finds: "not_atomic"},
	{model: "lastparticipant", name: "mistake: announced, pruned by the list alone", flags: "ANNOUNCED PRUNE_BY_LIST", only: true, finds: "told_otherwise"},
	{model: "lastparticipant", name: "mistake: announced, not adopted", flags: "ANNOUNCED PRUNE_KEEPS", live: true, finds: stays},
	{model: "lastparticipant", name: "mistake: announced, adopted at any time", flags: "ANNOUNCED PRUNE_KEEPS ADOPT ADOPT_LATE", only: true, finds: "decided_twice", long: true},
	{model: "lastparticipant", name: "mistake: announced, no horizon", flags: "ANNOUNCED PRUNE_KEEPS NO_HORIZON", only: true, finds: "decided_twice"},
	{model: "lastparticipant", name: "mistake: announced, row at any time", flags: "ANNOUNCED PRUNE_KEEPS ROW_FIRST=0", only: true, finds: "not_atomic"},
	{model: "lastparticipant", name: "mistake: announced, row before prepare", flags: "ANNOUNCED PRUNE_KEEPS ROW_FIRST=1", only: true, finds: "not_atomic"},
	{model: "lastparticipant", name: "mistake: announced, commits before the other has voted", flags: "ANNOUNCED PRUNE_KEEPS ADOPT EARLY_COMMIT", only: true, finds: "not_atomic"},

	// The appointment moves to the branch that was opened last.
	{model: "moved", name: "moved", long: true},
	{model: "moved", name: "pruned while driven", flags: "CONCURRENT", long: true},
	{model: "moved", name: "given out while others prepare", flags: "GIVEN_OUT", long: true},
	{model: "moved", name: "nothing stays", live: true},
	{model: "moved", name: "given out while others prepare, nothing stays", flags: "GIVEN_OUT", live: true},
	{model: "moved", name: "moved while to be settled, without read-only votes", flags: "MOVE_LATE NO_READ_ONLY", long: true},
	{model: "moved", name: "an end of any enlisted branch is taken", flags: "END_OF_ANY", long: true},
	{model: "moved", name: "reaches committed", flags: "REACH=COMMIT", finds: end},
	{model: "moved", name: "reaches rolled back", flags: "REACH=ROLLBACK", finds: end},
	{model: "moved", name: "reaches committed, branch 1 alone", flags: "REACH_END=1", finds: end},
	{model: "moved", name: "reaches committed, with a read-only vote", flags: "REACH_END=2", finds: end},
	{model: "moved", name: "reaches committed, found by a look", flags: "REACH_END=3", finds: end},
	{model: "moved", name: "reaches committed, by the votes of both", flags: "GIVEN_OUT REACH_END=4", finds: end},
	{model: "moved", name: "mistake: move not awaited", flags: "UNAWAITED", only: true, finds: "not_atomic"},
	{model: "moved", name: "mistake: move before the row", flags: "ROW_LATE", only: true, finds: "not_atomic"},
	{model: "moved", name: "mistake: commits alone after the move was sent", flags: "ALONE_MOVED", only: true, finds: "told_otherwise"},
	{model: "moved", name: "mistake: settles by the branch before", flags: "SETTLES_FIRST", live: true, finds: stays},
	{model: "moved", name: "mistake: moved while to be settled", flags: "MOVE_LATE", only: true, finds: "false_heuristic"},
	{model: "moved", name: "mistake: a repeated begin appoints again", flags: "BEGIN_APPOINTS", live: true, finds: stays},
	{model: "moved", name: "mistake: a repeated move appoints again", flags: "MOVE_APPOINTS", only: true, finds: "not_atomic"},
	{model: "moved", name: "mistake: a repeated move revokes", flags: "MOVE_REVOKES", only: true, finds: "not_atomic"},
	{model: "moved", name: "mistake: a move that appoints no branch is answered", flags: "MOVE_CLAIMS", only: true, finds: "not_atomic"},
	{model: "moved", name: "mistake: the deadline decides", flags: "DEADLINE_DECIDES", only: true, finds: "not_atomic"},
	{model: "moved", name: "mistake: commits before the other has voted", flags: "EARLY_COMMIT", only: true, finds: "not_atomic"},
	{model: "moved", name: "mistake: commits in one phase beside a read-only vote", flags: "READ_ONLY_COUNTS", only: true, finds: "false_heuristic"},
	{model: "moved", name: "mistake: prepares before the revocation is answered", flags: "REVOKE_UNAWAITED", live: true, finds: stays},
	{model: "moved", name: "mistake: a look takes no row for a rollback", flags: "LOOK_DECIDES", only: true, finds: "not_atomic"},
	{model: "moved", name: "mistake: a no after the commit was sent", flags: "NO_AFTER_COMMIT", only: true, finds: "not_atomic"},
	{model: "moved", name: "mistake: prune beside a call", flags: "CONCURRENT PRUNE_WHILE_BUSY", only: true, finds: "false_heuristic", long: true},

	// A single branch is appointed in a begin that is not awaited.
	{model: "announced", name: "one branch", flags: "SINGLE CONCURRENT", long: true},
	{model: "announced", name: "one branch or two", long: true},
	{model: "announced", name: "shared", flags: "SHARED", long: true},
	{model: "announced", name: "nothing stays", live: true, long: true},
	{model: "announced", name: "no barrier", flags: "NO_BARRIER", long: true},
	{model: "announced", name: "pruned by the clock, begun by the clock", flags: "CLOCK BEGIN_BY_CLOCK", long: true},
	{model: "announced", name: "enlisted while to be resolved", flags: "ENLIST_LATE", long: true},
	{model: "announced", name: "report refused while to be resolved", flags: "REPORT_REFUSED", long: true},
	{model: "announced", name: "reaches committed with two", flags: "REACH=COMMIT", finds: end},
	{model: "announced", name: "reaches committed, shared", flags: "SHARED REACH=COMMIT", finds: end},
	{model: "announced", name: "reaches committed, resolved", flags: "SINGLE REACH_ALONE=1", finds: end},
	{model: "announced", name: "reaches rolled back, resolved", flags: "SINGLE REACH_ALONE=2", finds: end},
	{model: "announced", name: "reaches committed, never begun, and pruned", flags: "SINGLE REACH_ALONE=3", finds: end},
	{model: "announced", name: "mistake: row after the begin", flags: "ROW_LATE", only: true, finds: "unnoticed"},
	{model: "announced", name: "mistake: the deadline decides", flags: "DEADLINE_DECIDES", only: true, finds: "told_otherwise"},
	{model: "announced", name: "mistake: a rollback decides", flags: "ROLLBACK_DECIDES", only: true, finds: "unnoticed"},
	{model: "announced", name: "mistake: pruned at once", flags: "PRUNED_AT_ONCE", only: true, finds: "unnoticed"},
	{model: "announced", name: "mistake: pruned by the clock", flags: "CLOCK", only: true, finds: "unnoticed"},
	{model: "announced", name: "mistake: no horizon", flags: "NO_HORIZON", only: true, finds: "begun_twice"},
	{model: "announced", name: "mistake: no horizon, what it costs", flags: "NO_HORIZON", only: true, finds: "unnoticed"},
	{model: "announced", name: "mistake: an enlistment does not revoke", flags: "ENLIST_KEEPS", live: true, finds: stays},
	{model: "announced", name: "mistake: others revoke", flags: "SHARED OTHERS_REVOKE", only: true, finds: "not_atomic"},
	{model: "announced", name: "mistake: revocation not awaited", flags: "UNAWAITED", only: true, finds: "not_atomic"},
	{model: "announced", name: "mistake: commits after the revocation was sent", flags: "COMMITS_REVOKED", only: true, finds: "not_atomic"},
	{model: "announced", name: "mistake: a repeated begin appoints again", flags: "BEGIN_APPOINTS", live: true, finds: stays},
	{model: "announced", name: "mistake: not resolved", flags: "NO_RESOLVE", live: true, finds: stays},
	{model: "announced", name: "mistake: not found is the end", flags: "NOT_FOUND_IS_END", only: true, finds: "told_otherwise"},
	{model: "announced", name: "mistake: prune beside a call", flags: "SINGLE CONCURRENT PRUNE_WHILE_BUSY", only: true, finds: "false_heuristic"},

	{model: "sharedid", name: "revoked, then shared"},
	{model: "sharedid", name: "nothing stays", live: true},
	{model: "sharedid", name: "reaches committed", flags: "REACH", finds: end},
	{model: "sharedid", name: "mistake: appointment moved", flags: "MOVED", only: true, finds: "not_atomic"},
	{model: "sharedid", name: "mistake: revocation not awaited", flags: "REVOKED_LATE", live: true, finds: stays},
}
