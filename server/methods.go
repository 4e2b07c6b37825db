package server

import (
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/txn"
)

// methodRow is what the server knows of one method of the API.
type methodRow struct {
	path    string
	op      string   // for errors: "begin"
	role    txn.Role // that a caller needs; 0 admits no caller
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
	{txmgrv1connect.TransactionServiceBeginProcedure, "begin", txn.RoleClient, unary, 0, commandOf(beginCommand)},
	{txmgrv1connect.TransactionServiceEnlistProcedure, "enlist", txn.RoleClient, unary, 0, commandOf(enlistCommand)},
	{txmgrv1connect.TransactionServiceCommitProcedure, "commit", txn.RoleClient, unary, 0, commandOf(commitCommand)},
	{txmgrv1connect.TransactionServiceVoteProcedure, "vote", txn.RoleClient, unary, 0, commandOf(voteCommand)},
	{txmgrv1connect.TransactionServiceDelegateProcedure, "delegate", txn.RoleClient, unary, 0, commandOf(delegateCommand)},
	{txmgrv1connect.TransactionServiceRollbackProcedure, "rollback", txn.RoleClient, unary, 0, commandOf(rollbackCommand)},
	{txmgrv1connect.TransactionServiceExtendProcedure, "extend", txn.RoleClient, unary, 0, commandOf(extendCommand)},
	{txmgrv1connect.TransactionServiceReportCompletionProcedure, "reportcompletion", txn.RoleClient, unary, 0, commandOf(reportCompletionCommand)},
	{txmgrv1connect.TransactionServiceGetProcedure, "get", txn.RoleReader, unary, allowsStale, commandOf(getCommand)},
	{txmgrv1connect.TransactionServicePipelineProcedure, "pipeline", txn.RoleClient, bidi, 0, nil},
	{txmgrv1connect.TransactionServiceListProcedure, "list", txn.RoleReader, unary, allowsStale, nil},
	{txmgrv1connect.TransactionServiceWaitProcedure, "wait", txn.RoleReader, longLived, 0, nil},
	{txmgrv1connect.TransactionServiceWatchProcedure, "watch", txn.RoleReader, longLived, 0, nil},

	{txmgrv1connect.TimeoutServiceGroupsProcedure, "timeouts", txn.RoleReader, unary, allowsStale, nil},

	{txmgrv1connect.SessionServiceOpenProcedure, "open session", txn.RoleClient, unary, 0, nil},
	{txmgrv1connect.SessionServiceKeepAliveProcedure, "keep alive", txn.RoleClient, unary, 0, nil},
	{txmgrv1connect.SessionServiceCloseProcedure, "close session", txn.RoleClient, unary, 0, nil},
	{txmgrv1connect.SessionServiceListProcedure, "list sessions", txn.RoleReader, unary, allowsStale, nil},

	{txmgrv1connect.InDoubtServiceListProcedure, "indoubt list", txn.RoleReader, unary, allowsStale, nil},
	{txmgrv1connect.InDoubtServiceExplainProcedure, "indoubt explain", txn.RoleReader, fanout, 0, nil},
	{txmgrv1connect.InDoubtServiceAuditProcedure, "audit list", txn.RoleReader, unary, allowsStale, nil},
	{txmgrv1connect.InDoubtServiceScanProcedure, "scan", txn.RoleOperator, fanout, 0, nil},
	{txmgrv1connect.InDoubtServiceRetryProcedure, "indoubt retry", txn.RoleOperator, fanout, 0, nil},
	{txmgrv1connect.InDoubtServiceResolveProcedure, "indoubt resolve", txn.RoleOperator, fanout, 0, nil},
	{txmgrv1connect.InDoubtServiceForgetProcedure, "indoubt forget", txn.RoleOperator, unary, 0, nil},

	{txmgrv1connect.ParticipantServiceListProcedure, "list participants", txn.RoleReader, unary, allowsStale, nil},
	{txmgrv1connect.ParticipantServicePoolsProcedure, "pools", txn.RoleReader, unary, 0, nil},
	{txmgrv1connect.ParticipantServiceTestProcedure, "test participant", txn.RoleOperator, fanout, 0, nil},
	{txmgrv1connect.ParticipantServiceAddProcedure, "add participant", txn.RoleOperator, unary, 0, nil},
	{txmgrv1connect.ParticipantServiceRemoveProcedure, "remove participant", txn.RoleOperator, unary, 0, nil},

	{txmgrv1connect.ClusterServiceStatusProcedure, "status", txn.RoleReader, unary, nodeLocal, nil},
	{txmgrv1connect.ClusterServiceDoctorProcedure, "doctor", txn.RoleReader, fanout, 0, nil},
	{txmgrv1connect.ClusterServiceJoinProcedure, "join", txn.RoleAdmin, fanout, 0, nil},
	{txmgrv1connect.ClusterServiceRemoveProcedure, "remove", txn.RoleAdmin, fanout, 0, nil},
	{txmgrv1connect.ClusterServiceTransferLeaderProcedure, "transfer leader", txn.RoleAdmin, fanout, 0, nil},
	{txmgrv1connect.ClusterServiceLeaveProcedure, "leave", txn.RoleAdmin, fanout, nodeLocal, nil},
	{txmgrv1connect.ClusterServiceSnapshotProcedure, "snapshot", txn.RoleAdmin, longLived, allowsStale, nil},
	{txmgrv1connect.ClusterServiceResumeProcedure, "resume", txn.RoleAdmin, unary, 0, nil},

	{txmgrv1connect.TokenServiceCreateProcedure, "create token", txn.RoleAdmin, unary, 0, nil},
	{txmgrv1connect.TokenServiceListProcedure, "list tokens", txn.RoleAdmin, unary, 0, nil},
	{txmgrv1connect.TokenServiceRevokeProcedure, "revoke token", txn.RoleAdmin, unary, 0, nil},

	{reflectionV1, "serverreflectioninfo", txn.RoleReader, bidi, nodeLocal, nil},
	{reflectionV1Alpha, "serverreflectioninfo", txn.RoleReader, bidi, nodeLocal, nil},
}

const (
	reflectionV1      = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	reflectionV1Alpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
)
