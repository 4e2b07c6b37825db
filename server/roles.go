package server

import (
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/txn/admin"
)

// roles is the role that a caller needs, for every route. When authentication is on, a route
// that is not listed is refused to every caller.
var roles = map[string]admin.Role{
	txmgrv1connect.TransactionServiceBeginProcedure:            admin.RoleClient,
	txmgrv1connect.TransactionServiceEnlistProcedure:           admin.RoleClient,
	txmgrv1connect.TransactionServiceCommitProcedure:           admin.RoleClient,
	txmgrv1connect.TransactionServiceRollbackProcedure:         admin.RoleClient,
	txmgrv1connect.TransactionServiceVoteProcedure:             admin.RoleClient,
	txmgrv1connect.TransactionServiceDelegateProcedure:         admin.RoleClient,
	txmgrv1connect.TransactionServiceExtendProcedure:           admin.RoleClient,
	txmgrv1connect.TransactionServiceReportCompletionProcedure: admin.RoleClient,
	txmgrv1connect.TransactionServicePipelineProcedure:         admin.RoleClient,
	txmgrv1connect.TransactionServiceGetProcedure:              admin.RoleReader,
	txmgrv1connect.TransactionServiceListProcedure:             admin.RoleReader,
	txmgrv1connect.TransactionServiceWaitProcedure:             admin.RoleReader,
	txmgrv1connect.TransactionServiceWatchProcedure:            admin.RoleReader,

	txmgrv1connect.TimeoutServiceGroupsProcedure: admin.RoleReader,

	txmgrv1connect.SessionServiceOpenProcedure:      admin.RoleClient,
	txmgrv1connect.SessionServiceKeepAliveProcedure: admin.RoleClient,
	txmgrv1connect.SessionServiceCloseProcedure:     admin.RoleClient,
	txmgrv1connect.SessionServiceListProcedure:      admin.RoleReader,

	txmgrv1connect.InDoubtServiceListProcedure:    admin.RoleReader,
	txmgrv1connect.InDoubtServiceExplainProcedure: admin.RoleReader,
	txmgrv1connect.InDoubtServiceAuditProcedure:   admin.RoleReader,
	txmgrv1connect.InDoubtServiceScanProcedure:    admin.RoleOperator,
	txmgrv1connect.InDoubtServiceRetryProcedure:   admin.RoleOperator,
	txmgrv1connect.InDoubtServiceResolveProcedure: admin.RoleOperator,
	txmgrv1connect.InDoubtServiceForgetProcedure:  admin.RoleOperator,

	txmgrv1connect.ParticipantServiceListProcedure:   admin.RoleReader,
	txmgrv1connect.ParticipantServicePoolsProcedure:  admin.RoleReader,
	txmgrv1connect.ParticipantServiceTestProcedure:   admin.RoleOperator,
	txmgrv1connect.ParticipantServiceAddProcedure:    admin.RoleOperator,
	txmgrv1connect.ParticipantServiceRemoveProcedure: admin.RoleOperator,

	txmgrv1connect.ClusterServiceStatusProcedure:         admin.RoleReader,
	txmgrv1connect.ClusterServiceDoctorProcedure:         admin.RoleReader,
	txmgrv1connect.ClusterServiceJoinProcedure:           admin.RoleAdmin,
	txmgrv1connect.ClusterServiceRemoveProcedure:         admin.RoleAdmin,
	txmgrv1connect.ClusterServiceTransferLeaderProcedure: admin.RoleAdmin,
	txmgrv1connect.ClusterServiceLeaveProcedure:          admin.RoleAdmin,
	txmgrv1connect.ClusterServiceSnapshotProcedure:       admin.RoleAdmin,
	txmgrv1connect.ClusterServiceResumeProcedure:         admin.RoleAdmin,

	txmgrv1connect.TokenServiceCreateProcedure: admin.RoleAdmin,
	txmgrv1connect.TokenServiceListProcedure:   admin.RoleAdmin,
	txmgrv1connect.TokenServiceRevokeProcedure: admin.RoleAdmin,

	reflectionV1:      admin.RoleReader,
	reflectionV1Alpha: admin.RoleReader,

	metricsPath: admin.RoleReader,
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
