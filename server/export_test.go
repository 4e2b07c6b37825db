package server

import (
	"github.com/txmgr/txmgr/txn/admin"
)

// Routes returns the role of every existing route.
func (s *Server) Routes() map[string]admin.Role {
	routes := map[string]admin.Role{metricsPath: metricsRole}
	for path, p := range s.apiHandler.methods {
		routes[path] = p.role
	}
	return routes
}

// Listed returns the paths of the table of methods, in its order.
func Listed() []string {
	var paths []string
	for _, m := range methods {
		paths = append(paths, m.path)
	}
	return paths
}

// Commands returns the types of the commands in the table of methods.
func Commands() []string {
	var types []string
	for _, m := range methods {
		if m.command != nil {
			types = append(types, m.command.kind.String())
		}
	}
	return types
}
