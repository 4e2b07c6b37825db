package server

import "github.com/txmgr/txmgr/txn/admin"

// Routes returns the role of every existing route.
func (s *Server) Routes() map[string]admin.Role {
	routes := map[string]admin.Role{metricsPath: roles[metricsPath]}
	for path, p := range s.apiHandler.methods {
		routes[path] = p.role
	}
	return routes
}

// Listed returns the routes that have a role, existing or not.
func Listed() map[string]admin.Role { return roles }
