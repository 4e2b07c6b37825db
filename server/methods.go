package server

import (
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/txn/admin"
)

// methodRow is what the server knows of one method of the API.
type methodRow struct {
	path    string
	op      string     // for errors: "begin"
	role    admin.Role // that a caller needs; 0 admits no caller
	class   callClass
	flags   methodFlags
	command *command // how it is called through a Pipe; nil: it is not
}

// callClass determines the limits of a call.
type callClass int

const (
	unary     callClass = iota
	fanout              // calls participants or other nodes, which may take long
	longLived           // waits for an event, or streams its response
	bidi                // streams both ways
)

// methodFlags say which node may answer a call; without any, the leader does.
type methodFlags int

const (
	nodeLocal   methodFlags = 1 << iota // it concerns the node that is called: it is never forwarded
	allowsStale                         // a follower may answer from its own state, if the caller allows it
)

// methods are all methods of the API, one row each. When authentication is on, a method
// without a row is refused to every caller.
var methods = []methodRow{
	{txmgrv1connect.TransactionServiceBeginProcedure, "begin", admin.RoleClient, unary, 0, asyncCommandOf(beginCommand)},
	{txmgrv1connect.TransactionServiceEnlistProcedure, "enlist", admin.RoleClient, unary, 0, commandOf(enlistCommand)},
	{txmgrv1connect.TransactionServiceCommitProcedure, "commit", admin.RoleClient, unary, 0, asyncCommandOf(commitCommand)},
	{txmgrv1connect.TransactionServiceVoteProcedure, "vote", admin.RoleClient, unary, 0, commandOf(voteCommand)},
	{txmgrv1connect.TransactionServiceDelegateProcedure, "delegate", admin.RoleClient, unary, 0, commandOf(delegateCommand)},
	{txmgrv1connect.TransactionServiceRollbackProcedure, "rollback", admin.RoleClient, unary, 0, commandOf(rollbackCommand)},
	{txmgrv1connect.TransactionServiceExtendProcedure, "extend", admin.RoleClient, unary, 0, commandOf(extendCommand)},
	{txmgrv1connect.TransactionServiceReportCompletionProcedure, "reportcompletion", admin.RoleClient, unary, 0, asyncCommandOf(reportCompletionCommand)},
	{txmgrv1connect.TransactionServiceGetProcedure, "get", admin.RoleReader, unary, allowsStale, commandOf(getCommand)},
	{txmgrv1connect.TransactionServicePipelineProcedure, "pipeline", admin.RoleClient, bidi, 0, nil},
	{txmgrv1connect.TransactionServiceListProcedure, "list", admin.RoleReader, unary, allowsStale, nil},
	{txmgrv1connect.TransactionServiceWaitProcedure, "wait", admin.RoleReader, longLived, 0, nil},
	{txmgrv1connect.TransactionServiceWatchProcedure, "watch", admin.RoleReader, longLived, 0, nil},

	{txmgrv1connect.TimeoutServiceGroupsProcedure, "timeouts", admin.RoleReader, unary, allowsStale, nil},

	{txmgrv1connect.SessionServiceOpenProcedure, "open session", admin.RoleClient, unary, 0, nil},
	{txmgrv1connect.SessionServiceKeepAliveProcedure, "keep alive", admin.RoleClient, unary, 0, nil},
	{txmgrv1connect.SessionServiceCloseProcedure, "close session", admin.RoleClient, unary, 0, nil},
	{txmgrv1connect.SessionServiceListProcedure, "list sessions", admin.RoleReader, unary, allowsStale, nil},

	{txmgrv1connect.InDoubtServiceListProcedure, "indoubt list", admin.RoleReader, unary, allowsStale, nil},
	{txmgrv1connect.InDoubtServiceExplainProcedure, "indoubt explain", admin.RoleReader, fanout, 0, nil},
	{txmgrv1connect.InDoubtServiceAuditProcedure, "audit list", admin.RoleReader, unary, allowsStale, nil},
	{txmgrv1connect.InDoubtServiceScanProcedure, "scan", admin.RoleOperator, fanout, 0, nil},
	{txmgrv1connect.InDoubtServiceRetryProcedure, "indoubt retry", admin.RoleOperator, fanout, 0, nil},
	{txmgrv1connect.InDoubtServiceResolveProcedure, "indoubt resolve", admin.RoleOperator, fanout, 0, nil},
	{txmgrv1connect.InDoubtServiceForgetProcedure, "indoubt forget", admin.RoleOperator, unary, 0, nil},

	{txmgrv1connect.ParticipantServiceListProcedure, "list participants", admin.RoleReader, unary, allowsStale, nil},
	{txmgrv1connect.ParticipantServicePoolsProcedure, "pools", admin.RoleReader, unary, 0, nil},
	{txmgrv1connect.ParticipantServiceTestProcedure, "test participant", admin.RoleOperator, fanout, 0, nil},
	{txmgrv1connect.ParticipantServiceAddProcedure, "add participant", admin.RoleOperator, unary, 0, nil},
	{txmgrv1connect.ParticipantServiceRemoveProcedure, "remove participant", admin.RoleOperator, unary, 0, nil},

	{txmgrv1connect.ClusterServiceStatusProcedure, "status", admin.RoleReader, unary, nodeLocal, nil},
	{txmgrv1connect.ClusterServiceDoctorProcedure, "doctor", admin.RoleReader, fanout, 0, nil},
	{txmgrv1connect.ClusterServiceJoinProcedure, "join", admin.RoleAdmin, fanout, 0, nil},
	{txmgrv1connect.ClusterServiceRemoveProcedure, "remove", admin.RoleAdmin, fanout, 0, nil},
	{txmgrv1connect.ClusterServiceTransferLeaderProcedure, "transfer leader", admin.RoleAdmin, fanout, 0, nil},
	{txmgrv1connect.ClusterServiceLeaveProcedure, "leave", admin.RoleAdmin, fanout, nodeLocal, nil},
	{txmgrv1connect.ClusterServiceSnapshotProcedure, "snapshot", admin.RoleAdmin, longLived, allowsStale, nil},
	{txmgrv1connect.ClusterServiceResumeProcedure, "resume", admin.RoleAdmin, unary, 0, nil},

	{txmgrv1connect.TokenServiceCreateProcedure, "create token", admin.RoleAdmin, unary, 0, nil},
	{txmgrv1connect.TokenServiceListProcedure, "list tokens", admin.RoleAdmin, unary, 0, nil},
	{txmgrv1connect.TokenServiceRevokeProcedure, "revoke token", admin.RoleAdmin, unary, 0, nil},

	{reflectionV1, "serverreflectioninfo", admin.RoleReader, bidi, nodeLocal, nil},
	{reflectionV1Alpha, "serverreflectioninfo", admin.RoleReader, bidi, nodeLocal, nil},
}

const (
	reflectionV1      = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	reflectionV1Alpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
)
