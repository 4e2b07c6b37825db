package server

import "github.com/txmgr/txmgr/txn"

// Routes gives the role of every route that exists.
func (s *Server) Routes() map[string]txn.Role {
	routes := map[string]txn.Role{metricsPath: roles[metricsPath]}
	for path, p := range s.apiHandler.methods {
		routes[path] = p.role
	}
	return routes
}

// Listed gives the routes that have a role, existing or not.
func Listed() map[string]txn.Role { return roles }
