package planted

var ofTheAnnouncer = []plant{
	{
		name:   "a branch prepares before the coordinator knows it",
		breaks: "nothing is prepared that the log does not know",
		file:   "txn/commit.go",
		old:    "err = tx.announcer.await(work) // what is prepared, the coordinator knows",
		bug:    "err = nil",
		pkg:    "txn", test: "TestNothingPreparesBeforeTheCoordinatorKnows", says: "prepared, and the begin was never answered",
	},
	{
		name:   "sdk: a commit that returns on the decision forgets it",
		breaks: "what the caller is told of a commit is what was decided",
		file:   "txn/commit.go",
		old:    "tx.setDecision(Committing) // the caller may look at once\n",
		bug:    "\n",
		pkg:    "txn", test: "TestReturnOnDecisionToTheFunction", says: "outcome in doubt",
	},
	{
		name:   "the decision is delegated to a branch that the coordinator does not know",
		breaks: "nothing is committed that the log does not know",
		file:   "txn/onephase.go",
		old:    "if err := tx.announcer.await(work); err != nil {",
		bug:    "if err := context.Cause(work); err != nil {",
		pkg:    "txn", test: "TestNothingPreparesBeforeTheCoordinatorKnows", says: "prepared, and the begin was never answered",
	},
	{
		name:   "a branch works under a name that the coordinator does not have",
		breaks: "the coordinator's answer is compared with the names that were given out",
		file:   "txn/announcer.go",
		old:    "if err == nil && !slices.Contains(a.named, b) {",
		bug:    "if err == nil && !slices.Contains(a.named, b) && sent < 0 {",
		pkg:    "txn", test: "TestRefusalsBehindTheWork", says: "want [rolled back conflict]",
	},
	{
		name:   "an id is given out that the coordinator does not know",
		breaks: "an id is known wherever it is used",
		file:   "txn/tx.go",
		old:    "_ = tx.announcer.begin(ctx, true) // the error is that of Commit",
		bug:    "_ = ctx",
		pkg:    "txn", test: "TestIDIsOfABegunTransaction", says: "the id was given out, and the calls so far are",
	},
}
