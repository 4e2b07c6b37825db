package server_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/txn/admin"
)

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
	seen := 0
	for path, role := range server.Listed() {
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
