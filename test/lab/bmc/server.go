package bmc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/certificates"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// Address is the address of the BMCs.
	Address = network.Gateway4 + ":8000"
	// TLSAddress is their address with TLS, and a certificate of an authority that no client has.
	TLSAddress = network.Gateway4 + ":8443"
	// ImagesAddress is the address of the images of operating systems.
	ImagesAddress = network.Gateway4 + ":8001"

	// headerLimit is the time limit for the headers of a request.
	headerLimit = 10 * time.Second
)

// Network is the network of the server: the switch of a lab.
type Network interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Listen(ctx context.Context, network, address string) (net.Listener, error)
}

// Server has all BMCs of a lab and its images. It is safe for concurrent use.
type Server struct {
	client  *http.Client
	servers []*http.Server
	running sync.WaitGroup
	journal journal

	// mutex guards the fields below.
	mutex       sync.Mutex
	controllers map[string]*controller
	// images are the images by name, and the media by name with mediumSuffix.
	images map[string]*imageFile
	// sessions are the open sessions by name.
	sessions map[string]session
}

// controller is the BMC of one machine.
type controller struct {
	name    string
	machine Machine
	// operation has room for one value. The goroutine that sends it may change the machine.
	operation chan struct{}

	// mutex guards the fields below.
	mutex sync.Mutex
	credentials
	fault Fault
	boot  bootSource
	// endCommand ends the last graceful command. Nil before the first.
	endCommand context.CancelFunc
	// bios are the settings of the last start, and pendingBIOS those for the next start.
	bios, pendingBIOS map[string]any
	// medium is the URL of the medium in the virtual CD drive, or empty.
	medium string
}

// Start serves on a network until Close, at first without machines and images.
func Start(ctx context.Context, on Network) (*Server, error) {
	server := &Server{
		// A BMC accepts any certificate until an administrator configures it.
		client: &http.Client{Transport: &http.Transport{
			DialContext:     on.Dial,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // See above.
		}},
		controllers: map[string]*controller{},
		images:      map[string]*imageFile{},
		sessions:    map[string]session{},
	}
	certificate, _, err := certificates.Serving(network.Gateway4)
	if err != nil {
		return nil, fmt.Errorf("creating the certificate of BMCs: %w", err)
	}
	for address, handler := range map[string]http.Handler{
		Address:       server.controllerHandler(),
		TLSAddress:    server.controllerHandler(),
		ImagesAddress: server.imageHandler(),
	} {
		listener, err := on.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("serving BMCs: %w", err), server.Close())
		}
		if address == TLSAddress {
			listener = tls.NewListener(listener, certificate)
		}
		serving := &http.Server{Handler: handler, ReadHeaderTimeout: headerLimit}
		server.servers = append(server.servers, serving)
		// Serve returns only after Close.
		server.running.Go(func() { _ = serving.Serve(listener) })
	}
	return server, nil
}

// Close ends the server and its connections. Running operations complete.
func (s *Server) Close() error {
	failures := make([]error, 0, len(s.servers))
	for _, serving := range s.servers {
		failures = append(failures, serving.Close())
	}
	s.running.Wait()
	s.client.CloseIdleConnections()
	return errors.Join(failures...)
}

// Add adds a BMC for a machine.
func (s *Server) Add(name, username, password string, machine Machine) error {
	if err := network.CheckMachine(name); err != nil {
		return err
	}
	if username == "" || password == "" {
		return fmt.Errorf("the BMC of machine %s requires a user name and a password", name)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.controllers[name] != nil {
		return fmt.Errorf("machine %s has a BMC: remove it first", name)
	}
	s.controllers[name] = &controller{
		name: name, credentials: credentials{username, password}, machine: machine, operation: make(chan struct{}, 1),
		boot: bootSource{Target: fromNone, Enabled: bootNormal}, bios: newBIOS(), pendingBIOS: map[string]any{},
	}
	return nil
}

// Remove removes the BMC of a machine, if it exists.
func (s *Server) Remove(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.controllers, name)
}

// Operations returns all requests to the BMCs, the oldest first.
func (s *Server) Operations() []Operation { return s.journal.copy() }

// OperationsSince returns the operations with requests since a time. A request before that time may be answered later,
// so the number of earlier operations is not the index of the first one.
func (s *Server) OperationsSince(begin time.Time) []Operation {
	return slices.DeleteFunc(s.journal.copy(), func(operation Operation) bool { return operation.Time.Before(begin) })
}

// RedfishAddress returns the address of the BMC of a machine, in the format of BareMetalHosts and Ironic.
func RedfishAddress(machine string) (server, system string) {
	return "http://" + Address, systems + "/" + machine
}

// RedfishTLSAddress returns the same address with TLS.
func RedfishTLSAddress(machine string) (server, system string) {
	return "https://" + TLSAddress, systems + "/" + machine
}

func (s *Server) find(name string) *controller {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.controllers[name]
}
