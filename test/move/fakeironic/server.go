// Package fakeironic is an Ironic in memory, for stories that need neither root nor a network: the part of the API that
// the Baremetal Operator (BMO) uses, with the states, the locks and the errors of the original, and work that takes
// time.
//
// It is no proof alone, because it knows only what its authors thought of: test/e2e moves hosts with a real one.
// What it adds is an account of every request, and work that does not end.
package fakeironic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// Server is one Ironic. The fields may be set before it is used.
type Server struct {
	// Username and Password are those of the API.
	Username, Password string

	// BoardPassword is the only one that management controllers accept.
	BoardPassword string

	// Work is how long everything takes that Ironic does in the background. Zero means that it is done with
	// the next request.
	Work time.Duration

	server *httptest.Server

	lock sync.Mutex
	// nodes and ports are by their IDs.
	nodes map[string]*record
	ports map[string]port
	// machines are the power states of the machines by the addresses of their management controllers. They outlive
	// what Ironic knows of them.
	machines map[string]nodes.TargetPowerState
	// serial makes IDs.
	serial int
	calls  []Call
	// stuck are the prefixes of the names of nodes on which no work ends.
	stuck []string
}

// Call is a request that changes something.
type Call struct {
	// Node is the name of the node, if it is about one.
	Node string

	// What is the verb: "enroll", "port", "update", "manage" and the other provision states, "power on" and the other
	// power states, "maintenance", "no maintenance", "remove".
	What string
}

// record is a node and what is being done with it.
type record struct {
	nodes.Node

	// done ends the work at its time. Nil means that nothing is being done.
	done func(*record)
	at   time.Time

	inventory bool

	// looks counts the requests for the node.
	looks int
}

type port struct {
	UUID    string `json:"uuid"`
	Node    string `json:"node_uuid"`
	Address string `json:"address"`
	PXE     bool   `json:"pxe_enabled"`
}

// New starts a server. Close ends it.
func New() *Server {
	s := &Server{
		Username: "ironic", Password: "fake",
		nodes: map[string]*record{}, ports: map[string]port{}, machines: map[string]nodes.TargetPowerState{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+versionPath+"{$}", s.showVersion)
	mux.HandleFunc("GET /v1/drivers", s.listDrivers)
	mux.HandleFunc("GET /v1/nodes", s.listNodes)
	mux.HandleFunc("POST /v1/nodes", s.enroll)
	mux.HandleFunc("GET /v1/ports", s.listPorts)
	mux.HandleFunc("POST /v1/ports", s.addPort)
	for pattern, handle := range map[string]func(*record, *http.Request) (int, any){
		"GET /v1/nodes/{node}":                  s.show,
		"PATCH /v1/nodes/{node}":                s.update,
		"DELETE /v1/nodes/{node}":               s.remove,
		"GET /v1/nodes/{node}/inventory":        s.inventory,
		"GET /v1/nodes/{node}/validate":         s.validate,
		"GET /v1/nodes/{node}/bios":             s.settings,
		"GET /v1/nodes/{node}/firmware":         s.firmware,
		"PUT /v1/nodes/{node}/states/provision": s.provision,
		"PUT /v1/nodes/{node}/states/power":     s.power,
		"PUT /v1/nodes/{node}/maintenance":      s.maintenance,
		"DELETE /v1/nodes/{node}/maintenance":   s.maintenance,
	} {
		mux.HandleFunc(pattern, s.onNode(handle))
	}
	s.server = httptest.NewServer(s.guard(mux))
	return s
}

// Endpoint is the URL of the API.
func (s *Server) Endpoint() string { return s.server.URL + "/v1/" }

// Close ends the server.
func (s *Server) Close() { s.server.Close() }

// Hold lets no work end on nodes whose names begin with a prefix, until it is told not to hold them.
func (s *Server) Hold(prefix string, hold bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.stuck = slices.DeleteFunc(s.stuck, func(held string) bool { return held == prefix })
	if hold {
		s.stuck = append(s.stuck, prefix)
	}
}

// Empty forgets everything, like an Ironic that starts with an empty database.
func (s *Server) Empty() {
	s.lock.Lock()
	defer s.lock.Unlock()
	clear(s.nodes)
	clear(s.ports)
}

// Node returns a copy of the node of a name. It says no if there is none.
func (s *Server) Node(name string) (nodes.Node, bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	found := s.find(name)
	if found == nil {
		return nodes.Node{}, false
	}
	return found.Node, true
}

// Looks counts the requests for the node of a name, by name or by ID.
func (s *Server) Looks(name string) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	if found := s.find(name); found != nil {
		return found.looks
	}
	return 0
}

// Powered says whether the machine behind the management controller at an address is on.
func (s *Server) Powered(address string) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.machines[address] == nodes.PowerOn
}

// Calls returns what was asked for so far.
func (s *Server) Calls() []Call {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.calls)
}

// versionPath is answered without credentials.
const versionPath = "/v1/"

// guard does for every request what has to be done first.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.lock.Lock()
		defer s.lock.Unlock()
		username, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path != versionPath && (username != s.Username || password != s.Password):
			answer(w, http.StatusUnauthorized, fault("Incorrect username or password"))
		default:
			s.settle()
			next.ServeHTTP(w, r)
		}
	})
}

// settle ends all work whose time has come.
func (s *Server) settle() {
	for _, node := range s.nodes {
		if slices.ContainsFunc(s.stuck, func(prefix string) bool { return strings.HasPrefix(node.Name, prefix) }) {
			continue
		}
		for node.done != nil && !time.Now().Before(node.at) {
			done := node.done
			node.done = nil
			done(node)
		}
	}
}

// start begins work on a node.
func (s *Server) start(node *record, done func(*record)) {
	node.done, node.at = done, time.Now().Add(s.Work)
}

func (s *Server) find(key string) *record {
	if found := s.nodes[key]; found != nil {
		return found
	}
	for _, node := range s.nodes {
		if node.Name == key {
			return node
		}
	}
	return nil
}

// onNode finds the node that a request is about. Ironic rejects changes of a node that it is working on.
func (s *Server) onNode(handle func(*record, *http.Request) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		node := s.find(r.PathValue("node"))
		switch {
		case node == nil:
			answer(w, http.StatusNotFound, fault("Node %s could not be found.", r.PathValue("node")))
		case r.Method != http.MethodGet && node.done != nil:
			answer(w, http.StatusConflict, fault("Node %s is locked by host fake.", node.UUID))
		default:
			code, body := handle(node, r)
			answer(w, code, body)
		}
	}
}

func (s *Server) record(node *record, what string) {
	s.calls = append(s.calls, Call{Node: node.Name, What: what})
}

func (s *Server) id(kind string) string {
	s.serial++
	return fmt.Sprintf("00000000-0000-%s-0000-%012d", kind, s.serial)
}

// fault is an error as Ironic tells it: a string of JSON within JSON.
func fault(format string, args ...any) map[string]string {
	// Strings can be encoded.
	text, _ := json.Marshal(map[string]string{
		"faultstring": strings.TrimSpace(fmt.Sprintf(format, args...)), "faultcode": "Client",
	})
	return map[string]string{"error_message": string(text)}
}

func answer(w http.ResponseWriter, code int, body any) {
	if body == nil {
		w.WriteHeader(code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// The client is gone, which is its own business.
	_ = json.NewEncoder(w).Encode(body)
}

func read(r *http.Request, into any) error { return json.NewDecoder(r.Body).Decode(into) }
