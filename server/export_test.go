package server

import "github.com/txmgr/txmgr/txn"

// Routes returns the role of every existing route.
func (s *Server) Routes() map[string]txn.Role {
	routes := map[string]txn.Role{metricsPath: roles[metricsPath]}
	for path, p := range s.apiHandler.methods {
		routes[path] = p.role
	}
	return routes
}

// Listed returns the routes that have a role, existing or not.
func Listed() map[string]txn.Role { return roles }
