package servertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// SetLeader sets what Leader returns: the leader's URL, or that this node leads.
func (f *Fake) SetLeader(api string, here bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader, f.isFollower = api, !here
}

// Leader implements [server.Coordinator].
func (f *Fake) Leader() (api string, here bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, !f.isFollower
}

// Join implements [server.Coordinator]: the node's name is its address.
func (f *Fake) Join(ctx context.Context, address, by, reason string) (admin.Member, error) {
	if err := f.before(ctx, "join", txn.ID{}); err != nil {
		return admin.Member{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if m.RaftAddr == address {
			return m, nil
		}
	}
	f.joined++
	m := admin.Member{ID: fmt.Sprintf("n%d", f.joined+1), Name: address, RaftAddr: address, Version: "test", Voter: true}
	f.members = append(f.members, m)
	f.auditLocked(admin.AuditRecord{Action: "member-add", Subject: m.ID, By: by, Reason: reason})
	return m, nil
}

// Remove implements [server.Coordinator].
func (f *Fake) Remove(ctx context.Context, node, by, reason string) error {
	if err := f.before(ctx, "remove", txn.ID{}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := slices.IndexFunc(f.members, func(m admin.Member) bool { return m.ID == node || m.Name == node })
	if n < 0 {
		return &txn.Error{Op: "remove", Err: txn.ErrNotFound, Detail: "no node " + node}
	}
	if f.members[n].Self {
		return &txn.Error{Op: "remove", Err: txn.ErrConflict, Detail: "the last node cannot go"}
	}
	f.auditLocked(admin.AuditRecord{Action: "member-remove", Subject: f.members[n].ID, By: by, Reason: reason})
	f.members = slices.Delete(f.members, n, n+1)
	return nil
}

// TransferLeader implements [server.Coordinator]: the named member becomes the leader, which
// changes nothing else.
func (f *Fake) TransferLeader(ctx context.Context, node, by, reason string) error {
	if err := f.before(ctx, "transfer leader", txn.ID{}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := slices.IndexFunc(f.members, func(m admin.Member) bool {
		return m.ID == node || m.Name == node || node == "" && !m.Leader
	})
	if n < 0 {
		return &txn.Error{Op: "transfer leader", Err: txn.ErrNotFound, Detail: "no node " + node}
	}
	f.auditLocked(admin.AuditRecord{Action: "leader-transfer-request", Subject: f.members[n].ID, By: by, Reason: reason})
	for i := range f.members {
		f.members[i].Leader = i == n
	}
	return nil
}

// Leave implements [server.Coordinator]: the only node of a cluster cannot leave.
func (f *Fake) Leave(ctx context.Context, by, reason string) error {
	if err := f.before(ctx, "leave", txn.ID{}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.members) == 1 {
		return &txn.Error{Op: "leave", Err: txn.ErrConflict, Detail: "the last node cannot go"}
	}
	f.auditLocked(admin.AuditRecord{Action: "member-remove", Subject: "n1", By: by, Reason: reason})
	return nil
}

// SetBackup sets what Backup writes.
func (f *Fake) SetBackup(data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backup = data
}

// Backup implements [server.Coordinator].
func (f *Fake) Backup(ctx context.Context, w io.Writer) (admin.Backup, error) {
	if err := f.before(ctx, "snapshot", txn.ID{}); err != nil {
		return admin.Backup{}, err
	}
	f.mu.Lock()
	data, index := f.backup, uint64(len(f.events))
	f.mu.Unlock()
	if _, err := w.Write(data); err != nil {
		return admin.Backup{}, err
	}
	sum := sha256.Sum256(data)
	return admin.Backup{Cluster: Cluster, Index: index, Term: 3, Taken: f.Began, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}, nil
}

// SetRecoveryPaused sets whether recovery is paused, as after a restore.
func (f *Fake) SetRecoveryPaused(held bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recoveryPaused = held
}

// ResumeRecovery implements [server.Coordinator].
func (f *Fake) ResumeRecovery(ctx context.Context, by, reason string) error {
	if err := f.before(ctx, "resume", txn.ID{}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.recoveryPaused {
		return nil
	}
	f.recoveryPaused = false
	f.auditLocked(admin.AuditRecord{Action: "resume", By: by, Reason: reason})
	return nil
}

// token is a token and the hash of its secret.
type token struct {
	admin.Token
	hash [sha256.Size]byte
}

// CreateToken implements [server.Coordinator]. Tokens never expire here: the
// fake's clock stands still.
func (f *Fake) CreateToken(ctx context.Context, r admin.TokenRequest) (admin.Token, string, error) {
	if err := f.before(ctx, "create token", txn.ID{}); err != nil {
		return admin.Token{}, "", err
	}
	if err := r.Check(); err != nil {
		return admin.Token{}, "", &txn.Error{Op: "create token", Err: err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	made := token{Token: admin.Token{ID: strings.ToLower(rand.Text()[:8]), Name: r.Name, Role: r.Role, Rate: r.Rate, Created: f.Began, By: r.By}}
	if r.TTL > 0 {
		made.Expires = f.Began.Add(r.TTL)
	}
	secret := "txm_" + made.ID + "_" + strings.ToLower(rand.Text() + rand.Text())[:32]
	made.hash = sha256.Sum256([]byte(secret))
	f.tokens = append(f.tokens, made)
	f.auditLocked(admin.AuditRecord{Action: "token-add", Subject: made.Name, By: r.By, Reason: r.Reason})
	return made.Token, secret, nil
}

// Tokens implements [server.Coordinator].
func (f *Fake) Tokens(ctx context.Context) ([]admin.Token, error) {
	if err := f.before(ctx, "list tokens", txn.ID{}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var ts []admin.Token
	for _, t := range f.tokens {
		ts = append(ts, t.Token)
	}
	slices.SortFunc(ts, func(a, b admin.Token) int { return cmp.Compare(a.ID, b.ID) })
	return ts, nil
}

// RevokeToken implements [server.Coordinator].
func (f *Fake) RevokeToken(ctx context.Context, id, by, reason string) error {
	if err := f.before(ctx, "revoke token", txn.ID{}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := slices.IndexFunc(f.tokens, func(t token) bool { return t.ID == id || t.Name == id })
	if n < 0 {
		return &txn.Error{Op: "revoke token", Err: txn.ErrNotFound, Detail: "no token " + id}
	}
	f.auditLocked(admin.AuditRecord{Action: "token-remove", Subject: f.tokens[n].Name, By: by, Reason: reason})
	f.tokens = slices.Delete(f.tokens, n, n+1)
	return nil
}

// AuthenticateToken implements [server.Coordinator].
func (f *Fake) AuthenticateToken(secret string) (admin.Token, bool) {
	hash := sha256.Sum256([]byte(secret))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokenLookups++
	for _, t := range f.tokens {
		if t.hash == hash {
			return t.Token, true
		}
	}
	return admin.Token{}, false
}

// TokenLookups is how often AuthenticateToken was called.
func (f *Fake) TokenLookups() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tokenLookups
}

// memberSelf is the fake's own node.
func memberSelf() admin.Member {
	return admin.Member{
		ID: "n1", Name: "one", RaftAddr: "127.0.0.1:7461", API: "http://127.0.0.1:7460", Version: "test",
		Voter: true, Leader: true, Self: true, LastContact: txn.Duration(time.Millisecond),
	}
}
