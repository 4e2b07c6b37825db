package server

import (
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn/admin"
)

// rpcMethod is one method of the API as it is served.
type rpcMethod struct {
	methodRow
	name   string // for logs and metrics: "Begin", "ParticipantService.List"
	serve  http.Handler
	timer  *timer
	stream bool // it streams responses or requests
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
	g := &apiHandler{
		s: s, errorWriter: connect.NewErrorWriter(options...),
		callWatcher: &callWatcher{c: s.c, auth: s.auth, draining: s.draining.ctx, calls: make(map[*watchedCall]struct{})},
		methods:     make(map[string]*rpcMethod),
	}
	t, h := txmgrv1connect.NewTransactionServiceHandler(&transactionService{c: s.c, lists: &s.lists, maxWait: s.cfg.MaxCallTimeout, pipelines: s.pipelines, methods: g}, options...)
	g.mount(t, h)
	operators := s.c.Admin()
	p, h := txmgrv1connect.NewParticipantServiceHandler(&participantService{operators}, options...)
	g.mount(p, h)
	o, h := txmgrv1connect.NewTimeoutServiceHandler(&timeoutService{operators}, options...)
	g.mount(o, h)
	d, h := txmgrv1connect.NewInDoubtServiceHandler(&inDoubtService{operators}, options...)
	g.mount(d, h)
	c, h := txmgrv1connect.NewClusterServiceHandler(&clusterService{operators}, options...)
	g.mount(c, h)
	k, h := txmgrv1connect.NewTokenServiceHandler(&tokenService{operators}, options...)
	g.mount(k, h)
	e, h := txmgrv1connect.NewSessionServiceHandler(&sessionService{s.c, operators}, options...)
	g.mount(e, h)

	reflector := grpcreflect.NewStaticReflector(serviceNames(t, p, o, d, c, k, e)...)
	r, h := grpcreflect.NewHandlerV1(reflector)
	g.add(r+"ServerReflectionInfo", h, true)
	r, h = grpcreflect.NewHandlerV1Alpha(reflector)
	g.add(r+"ServerReflectionInfo", h, true)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.live)
	mux.HandleFunc("GET /healthz", s.live)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET "+metricsPath, s.auth.RequireRole(metricsPath, metricsRole, s.metrics.handler()))
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
	m := &rpcMethod{methodRow: rowOf(path), name: name, serve: h, timer: g.s.metrics.timer(name), stream: stream}
	g.methods[path] = m
	if m.command != nil {
		g.commands = append(g.commands, m)
	}
}

// rowOf returns the row of a path in [methods]; one without a role if there is none.
func rowOf(path string) methodRow {
	if i := slices.IndexFunc(methods, func(m methodRow) bool { return m.path == path }); i >= 0 {
		return methods[i]
	}
	return methodRow{path: path}
}

// metricsPath is the page of the metrics, and metricsRole the role that its callers need.
const (
	metricsPath = "/metrics"
	metricsRole = admin.RoleReader
)

func notFound(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(wire.HeaderCode, "NOT_FOUND")
	http.Error(w, "txmgr: nothing at "+r.URL.Path+"; calls are POST /txmgr.v1.TransactionService/Begin and so on, "+
		"health is at /readyz and /livez, metrics at /metrics", http.StatusNotFound)
}
