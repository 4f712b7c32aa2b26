package bmc

import (
	"context"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// Power is the power of a machine. Its changes block until the new state is reached.
type Power interface {
	Powered() bool
	// PowerOn boots from the disk.
	PowerOn(ctx context.Context) error
	// PowerOnFrom boots from a medium with these files.
	PowerOnFrom(ctx context.Context, medium map[string][]byte) error
	PowerOff(ctx context.Context) error
	// Shutdown requests a shutdown from the operating system.
	Shutdown(ctx context.Context) error
}

// Machine is a machine with a BMC.
type Machine interface {
	Power
	// Port returns the network card of the machine.
	Port() network.Port
}
