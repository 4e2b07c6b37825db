package txn

// BranchName returns the name that the branch at a participant gets when it is enlisted, if the
// transaction names its branches itself ([Namer]); otherwise ok is false, and only the enlistment tells
// the name. It is for the function that opens a resource ([Join]), to write a row under the name together
// with the statement that begins its transaction. The enlistment may answer with another name, when
// the id was shared meanwhile: the caller compares.
func (tx *Tx) BranchName(participant string) (xid string, ok bool) {
	a := tx.announcer
	if a == nil || CheckParticipantName(participant) != nil {
		return "", false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || a.shared && a.indexLocked(participant) < 0 {
		return "", false
	}
	return a.nameLocked(participant).XID, true
}
