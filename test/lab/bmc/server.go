package bmc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// Address is where the board controllers listen.
	Address = network.Gateway4 + ":8000"
	// ImagesAddress is where the images of operating systems are served.
	ImagesAddress = network.Gateway4 + ":8001"

	// headerLimit is how long a client may take to say what it wants.
	headerLimit = 10 * time.Second
)

// Network is where the server lives: the switch of a lab.
type Network interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Listen(ctx context.Context, network, address string) (net.Listener, error)
}

// Server is all board controllers of a lab and its images. Its methods may be called at the same time.
type Server struct {
	client  *http.Client
	servers []*http.Server
	running sync.WaitGroup
	journal journal

	// mutex guards what is below.
	mutex       sync.Mutex
	controllers map[string]*controller
	images      map[string]*imageFile
}

// controller is the board controller of one machine.
type controller struct {
	name, username, password string
	machine                  Machine
	// operation has one place: whoever fills it may change the machine.
	operation chan struct{}

	// mutex guards what is below.
	mutex sync.Mutex
	fault Fault
	boot  bootSource
	// medium is the URL of what is in the virtual CD drive, empty when nothing is.
	medium string
}

// Start serves on a network until Close. There are no machines and no images yet.
func Start(ctx context.Context, on Network) (*Server, error) {
	server := &Server{
		// Board controllers take any certificate until an administrator tells them better.
		client: &http.Client{Transport: &http.Transport{
			DialContext:     on.Dial,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // See above.
		}},
		controllers: map[string]*controller{},
		images:      map[string]*imageFile{},
	}
	for address, handler := range map[string]http.Handler{
		Address:       server.controllerHandler(),
		ImagesAddress: server.imageHandler(),
	} {
		listener, err := on.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("serving board controllers: %w", err), server.Close())
		}
		serving := &http.Server{Handler: handler, ReadHeaderTimeout: headerLimit}
		server.servers = append(server.servers, serving)
		// It returns only when it was closed.
		server.running.Go(func() { _ = serving.Serve(listener) })
	}
	return server, nil
}

// Close ends the server and the connections to it. Operations that have begun still come to their end.
func (s *Server) Close() error {
	failures := make([]error, 0, len(s.servers))
	for _, serving := range s.servers {
		failures = append(failures, serving.Close())
	}
	s.running.Wait()
	s.client.CloseIdleConnections()
	return errors.Join(failures...)
}

// Add gives a machine a board controller.
func (s *Server) Add(name, username, password string, machine Machine) error {
	if err := network.CheckMachine(name); err != nil {
		return err
	}
	if username == "" || password == "" {
		return fmt.Errorf("the board controller of machine %s: it needs a user name and a password", name)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.controllers[name] != nil {
		return fmt.Errorf("machine %s has a board controller already: remove that first", name)
	}
	s.controllers[name] = &controller{
		name: name, username: username, password: password, machine: machine, operation: make(chan struct{}, 1),
		boot: bootSource{Target: fromNone, Enabled: bootNormal},
	}
	return nil
}

// Remove takes the board controller of a machine away. There need not be one.
func (s *Server) Remove(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.controllers, name)
}

// Operations is what the board controllers were asked for so far, the oldest first.
func (s *Server) Operations() []Operation { return s.journal.copy() }

// RedfishAddress is the address of a machine's board controller as BareMetalHosts and Ironic name it.
func RedfishAddress(machine string) (server, system string) {
	return "http://" + Address, systems + "/" + machine
}

func (s *Server) find(name string) *controller {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.controllers[name]
}
