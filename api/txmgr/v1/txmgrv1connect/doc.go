// Package txmgrv1connect holds the services of the API txmgr.v1, clients and
// handlers, generated for connect, gRPC and gRPC-Web from api/txmgr/v1/*.proto.
package txmgrv1connect
