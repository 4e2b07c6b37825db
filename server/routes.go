package server

import (
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn/admin"
)

// callClass determines the limits of a call.
type callClass int

const (
	unary     callClass = iota
	fanout              // calls participants or other nodes, which may take long
	longLived           // waits for an event, or streams its response
	bidi                // streams both ways
)

// rpcMethod is one method of the API.
type rpcMethod struct {
	name  string // for logs and metrics: "Begin", "ParticipantService.List"
	op    string // for errors: "begin"
	class callClass
	serve http.Handler
	timer *timer

	role        admin.Role // that a caller needs; 0 admits no caller
	stream      bool       // it streams responses or requests
	nodeLocal   bool       // it concerns the node that is called
	allowsStale bool       // any node may answer, if the caller allows it
}

// opNames are the names of methods in errors; all others go by their method's name.
var opNames = map[string]string{
	txmgrv1connect.ParticipantServiceAddProcedure:    "add participant",
	txmgrv1connect.ParticipantServiceListProcedure:   "list participants",
	txmgrv1connect.ParticipantServicePoolsProcedure:  "pools",
	txmgrv1connect.ParticipantServiceTestProcedure:   "test participant",
	txmgrv1connect.ParticipantServiceRemoveProcedure: "remove participant",
	txmgrv1connect.TimeoutServiceGroupsProcedure:     "timeouts",
	txmgrv1connect.InDoubtServiceListProcedure:       "indoubt list",
	txmgrv1connect.InDoubtServiceExplainProcedure:    "indoubt explain",
	txmgrv1connect.InDoubtServiceRetryProcedure:      "indoubt retry",
	txmgrv1connect.InDoubtServiceResolveProcedure:    "indoubt resolve",
	txmgrv1connect.InDoubtServiceForgetProcedure:     "indoubt forget",
	txmgrv1connect.InDoubtServiceAuditProcedure:      "audit list",

	txmgrv1connect.ClusterServiceTransferLeaderProcedure: "transfer leader",
	txmgrv1connect.TokenServiceCreateProcedure:           "create token",
	txmgrv1connect.TokenServiceListProcedure:             "list tokens",
	txmgrv1connect.TokenServiceRevokeProcedure:           "revoke token",

	txmgrv1connect.SessionServiceOpenProcedure:      "open session",
	txmgrv1connect.SessionServiceKeepAliveProcedure: "keep alive",
	txmgrv1connect.SessionServiceCloseProcedure:     "close session",
	txmgrv1connect.SessionServiceListProcedure:      "list sessions",
}

func classOf(path string) callClass {
	switch path {
	case txmgrv1connect.TransactionServiceWaitProcedure, txmgrv1connect.TransactionServiceWatchProcedure,
		txmgrv1connect.ClusterServiceSnapshotProcedure:
		return longLived
	case txmgrv1connect.TransactionServicePipelineProcedure:
		return bidi
	case txmgrv1connect.InDoubtServiceScanProcedure, txmgrv1connect.InDoubtServiceExplainProcedure,
		txmgrv1connect.InDoubtServiceRetryProcedure, txmgrv1connect.InDoubtServiceResolveProcedure,
		txmgrv1connect.ParticipantServiceTestProcedure, txmgrv1connect.ClusterServiceDoctorProcedure,
		txmgrv1connect.ClusterServiceJoinProcedure, txmgrv1connect.ClusterServiceRemoveProcedure,
		txmgrv1connect.ClusterServiceTransferLeaderProcedure, txmgrv1connect.ClusterServiceLeaveProcedure:
		return fanout
	}
	if strings.HasPrefix(path, "/grpc.reflection.") {
		return bidi
	}
	return unary
}

// routes builds the handler of everything. Calls of the API are found by one map look-up and
// pass the limits; the other pages are for operators and monitoring.
func (s *Server) routes() http.Handler {
	options := []connect.HandlerOption{
		connect.WithInterceptors(&interceptor{s}),
		connect.WithReadMaxBytes(s.cfg.MaxBody),
		connect.WithCompressMinBytes(4 << 10),
		connect.WithCodec(wire.JSON{}),
		connect.WithCodec(wire.JSON{ContentSubtype: "json; charset=utf-8"}),
	}
	g := &apiHandler{s: s, errorWriter: connect.NewErrorWriter(options...), methods: make(map[string]*rpcMethod)}
	t, h := txmgrv1connect.NewTransactionServiceHandler(&transactionService{s: s}, options...)
	g.mount(t, h)
	p, h := txmgrv1connect.NewParticipantServiceHandler(&participantService{s.c}, options...)
	g.mount(p, h)
	o, h := txmgrv1connect.NewTimeoutServiceHandler(&timeoutService{s.c}, options...)
	g.mount(o, h)
	d, h := txmgrv1connect.NewInDoubtServiceHandler(&inDoubtService{s.c}, options...)
	g.mount(d, h)
	c, h := txmgrv1connect.NewClusterServiceHandler(&clusterService{s}, options...)
	g.mount(c, h)
	k, h := txmgrv1connect.NewTokenServiceHandler(&tokenService{s.c}, options...)
	g.mount(k, h)
	e, h := txmgrv1connect.NewSessionServiceHandler(&sessionService{s.c}, options...)
	g.mount(e, h)

	s.pipelineMethods.begin = g.methods[txmgrv1connect.TransactionServiceBeginProcedure]
	s.pipelineMethods.enlist = g.methods[txmgrv1connect.TransactionServiceEnlistProcedure]
	s.pipelineMethods.commit = g.methods[txmgrv1connect.TransactionServiceCommitProcedure]
	s.pipelineMethods.vote = g.methods[txmgrv1connect.TransactionServiceVoteProcedure]
	s.pipelineMethods.delegate = g.methods[txmgrv1connect.TransactionServiceDelegateProcedure]
	s.pipelineMethods.rollback = g.methods[txmgrv1connect.TransactionServiceRollbackProcedure]
	s.pipelineMethods.extend = g.methods[txmgrv1connect.TransactionServiceExtendProcedure]
	s.pipelineMethods.done = g.methods[txmgrv1connect.TransactionServiceReportCompletionProcedure]
	s.pipelineMethods.get = g.methods[txmgrv1connect.TransactionServiceGetProcedure]
	s.pipelineMethods.unknown = g.methods[txmgrv1connect.TransactionServicePipelineProcedure]

	reflector := grpcreflect.NewStaticReflector(serviceNames(t, p, o, d, c, k, e)...)
	r, h := grpcreflect.NewHandlerV1(reflector)
	g.add(r+"ServerReflectionInfo", h, true)
	r, h = grpcreflect.NewHandlerV1Alpha(reflector)
	g.add(r+"ServerReflectionInfo", h, true)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.live)
	mux.HandleFunc("GET /healthz", s.live)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET "+metricsPath, s.auth.requireRole(metricsPath, s.metrics.handler()))
	mux.HandleFunc("/", notFound)
	g.fallback = mux
	// A web page of another origin must not control an unprotected coordinator through the
	// browser of a user who can reach it.
	s.apiHandler = g
	return s.withReadDeadline(s.rejectDNSRebinding(http.NewCrossOriginProtection().Handler(g)))
}

// mount adds every method of the service that is handled under prefix.
func (g *apiHandler) mount(prefix string, h http.Handler) {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(serviceNames(prefix)[0]))
	if err != nil {
		panic(err) // the generated code of this program is incomplete
	}
	methods := d.(protoreflect.ServiceDescriptor).Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		g.add(prefix+string(m.Name()), h, m.IsStreamingServer())
	}
}

// serviceNames turns path prefixes into names of services.
func serviceNames(prefixes ...string) []string {
	names := make([]string, len(prefixes))
	for i, p := range prefixes {
		names[i] = strings.Trim(p, "/")
	}
	return names
}

func (g *apiHandler) add(path string, h http.Handler, stream bool) {
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	name := service[strings.LastIndexByte(service, '.')+1:] + "." + method
	name = strings.TrimPrefix(name, "TransactionService.")
	op, ok := opNames[path]
	if !ok {
		op = strings.ToLower(method)
	}
	g.methods[path] = &rpcMethod{
		name: name, op: op, class: classOf(path), serve: h, timer: g.s.metrics.timer(name),
		role: roles[path], stream: stream, nodeLocal: nodeLocal[path], allowsStale: allowsStale[path],
	}
}

func notFound(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(wire.HeaderCode, "NOT_FOUND")
	http.Error(w, "txmgr: nothing at "+r.URL.Path+"; calls are POST /txmgr.v1.TransactionService/Begin and so on, "+
		"health is at /readyz and /livez, metrics at /metrics", http.StatusNotFound)
}
