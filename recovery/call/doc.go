// Package call makes the calls to participants that end or prepare a branch, and turns the
// answers into results for the log: [Do] for each [plan.Action], and [CheckCommitRecord] before
// a branch is rolled back that the log does not know.
//
// A participant's texts are redacted, its panics become errors, and an answer that is not one of
// those that the action allows is an error.
package call
