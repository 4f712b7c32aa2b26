package bmc

import (
	"context"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// Power is the power of a machine. What changes it returns when the state is reached.
type Power interface {
	Powered() bool
	PowerOn(ctx context.Context) error
	PowerOff(ctx context.Context) error
	// Shutdown asks the operating system to turn the machine off.
	Shutdown(ctx context.Context) error
	Reset(ctx context.Context) error
}

// Drives are the disk of a machine and its virtual medium.
type Drives interface {
	WriteDisk(ctx context.Context, rootKey string) error
	WipeDisk(ctx context.Context) error
	// InsertMedia puts a config drive in, given as the content of its files by their paths.
	InsertMedia(files map[string][]byte) error
	EjectMedia() error
	// Port says which network card the machine has.
	Port() network.Port
}

// Machine is what a board controller controls.
type Machine interface {
	Power
	Drives
}
