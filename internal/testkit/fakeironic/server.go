// Package fakeironic is an Ironic in memory, for stories without root and without a network: the part of the API that
// the Baremetal Operator (BMO) uses, with locked nodes and operations that take time. It records each request, and can
// stop operations.
//
// The only operation that fails is a verification with a wrong password. Nodes have one BIOS setting, which does not
// change, and no firmware components. There are no states in which Ironic waits for an agent. The stories of test/e2e
// run with a real Ironic.
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

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
)

// Server is an Ironic. Set the fields before its first use.
type Server struct {
	// Username and Password are the credentials of the API.
	Username, Password string

	// BoardPassword is the only password that management controllers accept.
	BoardPassword string

	// Work is the duration of each operation in the background. Zero means that the operation is complete at the next
	// request.
	Work time.Duration

	server *httptest.Server

	lock sync.Mutex
	// nodes and ports are by their IDs.
	nodes map[string]*record
	ports map[string]port
	// machines are the power states of the machines by the addresses of their management controllers. Empty does not clear
	// them.
	machines map[string]nodes.TargetPowerState
	// serial is the counter for IDs.
	serial int
	calls  []Call
	// stuck are the prefixes of the names of nodes whose operations do not end.
	stuck []string
}

// Call is a request that changes an object.
type Call struct {
	// Node is the name of the node. Empty if the request does not concern a node.
	Node string

	// What is the verb: "enroll", "port", "update", "manage" and the other provision states, "power on" and the other
	// power states, "maintenance", "no maintenance", "remove".
	What string
}

// record is a node and its current operation.
type record struct {
	nodes.Node

	// done completes the operation at the time at. Nil means that there is no operation.
	done func(*record)
	at   time.Time

	inventory bool

	// cards are the MAC addresses of network cards besides the first.
	cards []string

	// looks counts the requests for the node.
	looks int
}

type port struct {
	UUID    string `json:"uuid"`
	Node    string `json:"node_uuid"`
	Address string `json:"address"`
	PXE     bool   `json:"pxe_enabled"`
}

// New starts a server. Close stops it.
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

// Access returns the URL and the credentials of the API.
func (s *Server) Access() ironicapi.Endpoint {
	return ironicapi.Endpoint{URL: s.server.URL + "/v1/", Username: s.Username, Password: s.Password}
}

// Close stops the server.
func (s *Server) Close() { s.server.Close() }

// Hold stops the operations on nodes whose names begin with the prefix, or lets them end again.
func (s *Server) Hold(prefix string, hold bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.stuck = slices.DeleteFunc(s.stuck, func(held string) bool { return held == prefix })
	if hold {
		s.stuck = append(s.stuck, prefix)
	}
}

// Empty deletes all nodes and ports, like an Ironic that starts with an empty database.
func (s *Server) Empty() {
	s.lock.Lock()
	defer s.lock.Unlock()
	clear(s.nodes)
	clear(s.ports)
}

// Node returns a copy of the node with the name, and false if there is none.
func (s *Server) Node(name string) (nodes.Node, bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	found := s.find(name)
	if found == nil {
		return nodes.Node{}, false
	}
	return found.Node, true
}

// AddCard adds a network card to the machine of the node with the name. An inspection finds it.
func (s *Server) AddCard(name, address string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if found := s.find(name); found != nil {
		found.cards = append(found.cards, address)
	}
}

// Looks returns the number of requests for the node with the name, by name or by ID.
func (s *Server) Looks(name string) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	if found := s.find(name); found != nil {
		return found.looks
	}
	return 0
}

// Powered returns true if the machine behind the management controller at the address is on.
func (s *Server) Powered(address string) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.machines[address] == nodes.PowerOn
}

// Calls returns the requests so far.
func (s *Server) Calls() []Call {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.calls)
}

// versionPath does not require credentials.
const versionPath = "/v1/"

// guard locks the server for each request, checks the credentials, and completes operations that are due.
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

// settle completes all operations that are due.
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

// start begins an operation on a node.
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

// onNode finds the node of a request. Ironic rejects changes of a node during an operation.
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

// fault is an error in the format of Ironic: a string of JSON within JSON.
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
	// The client may have closed the connection.
	_ = json.NewEncoder(w).Encode(body)
}

func read(r *http.Request, into any) error { return json.NewDecoder(r.Body).Decode(into) }
