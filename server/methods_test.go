package server_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn/admin"
)

// Every method of the services in the schema has exactly one row in the table of methods, and
// every call of a command of a Pipe exactly one method.
func TestEveryMethodHasOneRow(t *testing.T) {
	listed := server.Listed()
	rows := make(map[string]int)
	for _, path := range listed {
		rows[path]++
	}
	found := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("txmgr.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			for j := range service.Methods().Len() {
				found++
				path := "/" + string(service.FullName()) + "/" + string(service.Methods().Get(j).Name())
				if rows[path] != 1 {
					t.Errorf("%s has %d rows", path, rows[path])
				}
			}
		}
		return true
	})
	if found < 40 || len(listed) != found+2 { // reflection has two
		t.Errorf("%d rows for %d methods", len(listed), found)
	}
	commands := server.Commands()
	slices.Sort(commands)
	calls := (*txmgrv1.Command)(nil).ProtoReflect().Descriptor().Oneofs().ByName("call").Fields().Len()
	if n := len(slices.Compact(commands)); n != len(server.Commands()) || n != calls {
		t.Errorf("%d methods, of %d kinds, for the %d calls of a command", len(server.Commands()), n, calls)
	}
}

// TestChecksNameMethods: the call that a health check names is a method of the API.
func TestChecksNameMethods(t *testing.T) {
	for _, call := range []string{
		admin.CallStatus, admin.CallDoctor, admin.CallInDoubts, admin.CallScan, admin.CallList, admin.CallListParticipants, admin.CallAddParticipant,
	} {
		if !slices.Contains(server.Listed(), "/txmgr.v1."+call) {
			t.Errorf("%s is no method", call)
		}
	}
}

// TestRolesFollowFromWhatCallsDo: the roles are in one table, which only this test checks: a
// call that the schema does not declare free of side effects is not for readers, and the more
// it can do the higher is its role.
func TestRolesFollowFromWhatCallsDo(t *testing.T) {
	changes := map[string]admin.Role{ // the least role for calls that change something
		txmgrv1connect.TransactionServiceName: admin.RoleClient,
		txmgrv1connect.ParticipantServiceName: admin.RoleOperator,
		txmgrv1connect.InDoubtServiceName:     admin.RoleOperator,
		txmgrv1connect.ClusterServiceName:     admin.RoleAdmin,
		txmgrv1connect.TokenServiceName:       admin.RoleAdmin,
		txmgrv1connect.SessionServiceName:     admin.RoleClient,
	}
	reads := map[string]admin.Role{
		txmgrv1connect.TokenServiceListProcedure: admin.RoleAdmin, // permissions are not for readers
	}
	s, err := server.New(server.Config{}, servertest.New())
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for path, role := range s.Routes() {
		name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "."))
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil || d.Parent().FullName().Parent() != "txmgr.v1" {
			continue // metrics and reflection
		}
		seen++
		options, _ := d.Options().(*descriptorpb.MethodOptions)
		want := max(reads[path], admin.RoleReader)
		if options.GetIdempotencyLevel() != descriptorpb.MethodOptions_NO_SIDE_EFFECTS && path != txmgrv1connect.TransactionServiceWatchProcedure {
			want = changes[string(d.Parent().FullName())]
		}
		if role != want {
			t.Errorf("%s is for %v and above; want %v", path, role, want)
		}
	}
	if seen < 40 {
		t.Errorf("only %d calls were looked at", seen)
	}
}
