// Package auth authenticates the callers of a server and checks their roles. An
// [Authenticator] turns a request into a [Principal], or into an error that says why the
// caller is rejected; [Authenticator.RecordDenial], [Challenge] and [ConnectCode] are for the
// answer. Make it with [New].
//
//	caller, err := a.Authorize(r, "InDoubtService.Forget", admin.RoleOperator, false)
//	if err != nil {
//		a.RecordDenial(r, "InDoubtService.Forget", caller, err)
//		auth.Challenge(w, r, err)
//		return err
//	}
//
// Tokens come as Authorization: Bearer. The secret in the root token file always has the role
// admin; all other tokens are the [Coordinator]'s.
//
// # Invariants
//
//  1. A caller whose role is not known is not admitted, and neither is one without a token,
//     unless authentication is off.
//  2. Secrets are never logged, and are compared in constant time.
//  3. The tables of addresses and of tokens are bounded, whatever calls arrive.
//
// An Authenticator is safe for concurrent use.
package auth
