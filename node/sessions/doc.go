// Package sessions expires the client sessions of which no keep-alive has come for longer than their
// TTL. The log opens, expires and closes sessions; keep-alives are not in the log, and only the
// leader counts the time since the last one.
//
//	e, err := sessions.NewExpirer(queue, fsm.View, term, logger)
//	go e.Run(ctx)                  // until the end of the term
//	e.Add(effects.SessionsOpened)  // an entry was applied
//	e.Drop(effects.SessionsClosed)
//	ok := e.Renew(id, ttl)         // a keep-alive has come
package sessions
