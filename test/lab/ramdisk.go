package lab

import (
	"context"
	"net/http"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/endpoint"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// ramdiskAddress serves the ramdisk that Ironic boots on real machines.
	ramdiskAddress = network.Gateway4 + ":8002"

	// headerLimit is the time limit for the headers of a request.
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
	// Serve always returns an error, after Close http.ErrServerClosed.
	go func() { _ = server.Serve(listener) }()
	return server, nil
}
