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
	// Address is where the board controllers listen.
	Address = network.Gateway4 + ":8000"
	// TLSAddress is where they listen for TLS, with a certificate of an authority that no client has.
	TLSAddress = network.Gateway4 + ":8443"
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
	// images are those by their names, and media by their names with mediumSuffix.
	images map[string]*imageFile
	// sessions are those that were not closed, by their names.
	sessions map[string]session
}

// controller is the board controller of one machine.
type controller struct {
	name    string
	machine Machine
	// operation has room for one value. The goroutine that sends it may change the machine.
	operation chan struct{}

	// mutex guards what is below.
	mutex sync.Mutex
	credentials
	fault Fault
	boot  bootSource
	// asking ends the last graceful command, nil before the first.
	asking context.CancelFunc
	// bios are the settings that the machine started with, and pendingBIOS those for its next start.
	bios, pendingBIOS map[string]any
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
		sessions:    map[string]session{},
	}
	certificate, err := newCertificate()
	if err != nil {
		return nil, fmt.Errorf("making the certificate of board controllers: %w", err)
	}
	for address, handler := range map[string]http.Handler{
		Address:       server.controllerHandler(),
		TLSAddress:    server.controllerHandler(),
		ImagesAddress: server.imageHandler(),
	} {
		listener, err := on.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("serving board controllers: %w", err), server.Close())
		}
		if address == TLSAddress {
			listener = tls.NewListener(listener, certificate)
		}
		serving := &http.Server{Handler: handler, ReadHeaderTimeout: headerLimit}
		server.servers = append(server.servers, serving)
		// It returns only when it was closed.
		server.running.Go(func() { _ = serving.Serve(listener) })
	}
	return server, nil
}

func newCertificate() (*tls.Config, error) {
	authority, err := certificates.NewAuthority("board controllers")
	if err != nil {
		return nil, err
	}
	pair, err := authority.Server(network.Gateway4)
	if err != nil {
		return nil, err
	}
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{loaded}}, err
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
		name: name, credentials: credentials{username, password}, machine: machine, operation: make(chan struct{}, 1),
		boot: bootSource{Target: fromNone, Enabled: bootNormal}, bios: newBIOS(), pendingBIOS: map[string]any{},
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

// OperationsSince are the operations whose requests came at a time or later. The count of earlier operations is no
// index of the first one: a request that came before may be answered after.
func (s *Server) OperationsSince(begin time.Time) []Operation {
	return slices.DeleteFunc(s.journal.copy(), func(operation Operation) bool { return operation.Time.Before(begin) })
}

// RedfishAddress is the address of a machine's board controller as BareMetalHosts and Ironic name it.
func RedfishAddress(machine string) (server, system string) {
	return "http://" + Address, systems + "/" + machine
}

// RedfishTLSAddress is the same address with TLS.
func RedfishTLSAddress(machine string) (server, system string) {
	return "https://" + TLSAddress, systems + "/" + machine
}

func (s *Server) find(name string) *controller {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.controllers[name]
}
