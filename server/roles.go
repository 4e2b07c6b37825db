package server

import (
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/txn"
)

// roles is the role that a caller needs, for every route. When authentication is on, a route
// that is not listed is refused to every caller.
var roles = map[string]txn.Role{
	txmgrv1connect.TransactionServiceBeginProcedure:            txn.RoleClient,
	txmgrv1connect.TransactionServiceEnlistProcedure:           txn.RoleClient,
	txmgrv1connect.TransactionServiceCommitProcedure:           txn.RoleClient,
	txmgrv1connect.TransactionServiceRollbackProcedure:         txn.RoleClient,
	txmgrv1connect.TransactionServiceVoteProcedure:             txn.RoleClient,
	txmgrv1connect.TransactionServiceDelegateProcedure:         txn.RoleClient,
	txmgrv1connect.TransactionServiceExtendProcedure:           txn.RoleClient,
	txmgrv1connect.TransactionServiceReportCompletionProcedure: txn.RoleClient,
	txmgrv1connect.TransactionServicePipelineProcedure:         txn.RoleClient,
	txmgrv1connect.TransactionServiceGetProcedure:              txn.RoleReader,
	txmgrv1connect.TransactionServiceListProcedure:             txn.RoleReader,
	txmgrv1connect.TransactionServiceWaitProcedure:             txn.RoleReader,
	txmgrv1connect.TransactionServiceWatchProcedure:            txn.RoleReader,

	txmgrv1connect.TimeoutServiceGroupsProcedure: txn.RoleReader,

	txmgrv1connect.SessionServiceOpenProcedure:      txn.RoleClient,
	txmgrv1connect.SessionServiceKeepAliveProcedure: txn.RoleClient,
	txmgrv1connect.SessionServiceCloseProcedure:     txn.RoleClient,
	txmgrv1connect.SessionServiceListProcedure:      txn.RoleReader,

	txmgrv1connect.InDoubtServiceListProcedure:    txn.RoleReader,
	txmgrv1connect.InDoubtServiceExplainProcedure: txn.RoleReader,
	txmgrv1connect.InDoubtServiceAuditProcedure:   txn.RoleReader,
	txmgrv1connect.InDoubtServiceScanProcedure:    txn.RoleOperator,
	txmgrv1connect.InDoubtServiceRetryProcedure:   txn.RoleOperator,
	txmgrv1connect.InDoubtServiceResolveProcedure: txn.RoleOperator,
	txmgrv1connect.InDoubtServiceForgetProcedure:  txn.RoleOperator,

	txmgrv1connect.ParticipantServiceListProcedure:   txn.RoleReader,
	txmgrv1connect.ParticipantServicePoolsProcedure:  txn.RoleReader,
	txmgrv1connect.ParticipantServiceTestProcedure:   txn.RoleOperator,
	txmgrv1connect.ParticipantServiceAddProcedure:    txn.RoleOperator,
	txmgrv1connect.ParticipantServiceRemoveProcedure: txn.RoleOperator,

	txmgrv1connect.ClusterServiceStatusProcedure:         txn.RoleReader,
	txmgrv1connect.ClusterServiceDoctorProcedure:         txn.RoleReader,
	txmgrv1connect.ClusterServiceJoinProcedure:           txn.RoleAdmin,
	txmgrv1connect.ClusterServiceRemoveProcedure:         txn.RoleAdmin,
	txmgrv1connect.ClusterServiceTransferLeaderProcedure: txn.RoleAdmin,
	txmgrv1connect.ClusterServiceLeaveProcedure:          txn.RoleAdmin,
	txmgrv1connect.ClusterServiceSnapshotProcedure:       txn.RoleAdmin,
	txmgrv1connect.ClusterServiceResumeProcedure:         txn.RoleAdmin,

	txmgrv1connect.TokenServiceCreateProcedure: txn.RoleAdmin,
	txmgrv1connect.TokenServiceListProcedure:   txn.RoleAdmin,
	txmgrv1connect.TokenServiceRevokeProcedure: txn.RoleAdmin,

	reflectionV1:      txn.RoleReader,
	reflectionV1Alpha: txn.RoleReader,

	metricsPath: txn.RoleReader,
}

// nodeLocal are the methods that concern the node that is called: they are never forwarded.
var nodeLocal = map[string]bool{
	txmgrv1connect.ClusterServiceStatusProcedure: true,
	txmgrv1connect.ClusterServiceLeaveProcedure:  true,
	reflectionV1:      true,
	reflectionV1Alpha: true,
}

// allowsStale are the methods that a follower may answer from its own state, if the caller
// allows that.
var allowsStale = map[string]bool{
	txmgrv1connect.TransactionServiceGetProcedure:  true,
	txmgrv1connect.TransactionServiceListProcedure: true,
	txmgrv1connect.TimeoutServiceGroupsProcedure:   true,
	txmgrv1connect.InDoubtServiceListProcedure:     true,
	txmgrv1connect.InDoubtServiceAuditProcedure:    true,
	txmgrv1connect.ParticipantServiceListProcedure: true,
	txmgrv1connect.ClusterServiceSnapshotProcedure: true,
	txmgrv1connect.SessionServiceListProcedure:     true,
}

const (
	reflectionV1      = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	reflectionV1Alpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
	metricsPath       = "/metrics"
)
