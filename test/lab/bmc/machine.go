package bmc

import (
	"context"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// Power is the power of a machine. What changes it returns when the state is reached.
type Power interface {
	Powered() bool
	// PowerOn boots what is on the disk.
	PowerOn(ctx context.Context) error
	// PowerOnFrom boots from a medium instead, which has these files.
	PowerOnFrom(ctx context.Context, medium map[string][]byte) error
	PowerOff(ctx context.Context) error
	// Shutdown asks the operating system to turn the machine off.
	Shutdown(ctx context.Context) error
}

// Machine is what a board controller controls.
type Machine interface {
	Power
	// Port says which network card the machine has.
	Port() network.Port
}
