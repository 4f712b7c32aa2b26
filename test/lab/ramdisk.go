package lab

import (
	"context"
	"net/http"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/endpoint"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// ramdiskAddress is where the machines find the ramdisk that Ironic would boot on real ones.
	ramdiskAddress = network.Gateway4 + ":8002"

	// headerLimit is how long a client may take to say what it wants.
	headerLimit = 10 * time.Second
)

// serveRamdisk serves the ramdisk in the network of a lab.
func serveRamdisk(ctx context.Context, in *network.Switch) (*http.Server, error) {
	handler, err := endpoint.RamdiskHandler()
	if err != nil {
		return nil, err
	}
	listener, err := in.Listen(ctx, "tcp", ramdiskAddress)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerLimit}
	// It ends with an error that says that it was closed.
	go func() { _ = server.Serve(listener) }()
	return server, nil
}
