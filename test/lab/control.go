package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// stopLimit is the time limit for the end of a lab.
	stopLimit = 3 * time.Minute

	// guardLimit is the time to wait for the guard of a process that has just ended.
	guardLimit = 30 * time.Second

	// controlSocket is the socket for requests to stop a lab. Only root can write to it.
	controlSocket = "control.sock"
)

// stateFolder returns the folder of a lab with the disks of its machines, its image store and its kubeconfig files. It
// is on the file system of the shared image store, whose files are hard-linked into the machines.
func stateFolder(name string) (string, error) {
	if err := network.CheckLab(name); err != nil {
		return "", err
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "labs", name), nil
}

// control lets another process stop the lab of this one. A connection is a request, and ends when the lab has stopped.
type control struct {
	listener net.Listener
	// requested is closed by the first request.
	requested chan struct{}
	once      sync.Once
	mutex     sync.Mutex
	open      []net.Conn
}

func newControl(ctx context.Context, folder string) (*control, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", filepath.Join(folder, controlSocket))
	if err != nil {
		return nil, fmt.Errorf("listening for requests to stop: %w", err)
	}
	made := &control{listener: listener, requested: make(chan struct{})}
	go made.serve()
	return made, nil
}

func (c *control) serve() {
	for {
		connection, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.mutex.Lock()
		c.open = append(c.open, connection)
		c.mutex.Unlock()
		c.once.Do(func() { close(c.requested) })
	}
}

// close ends the connections of waiting requests: the lab has stopped.
func (c *control) close() error {
	err := c.listener.Close()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, connection := range c.open {
		_ = connection.Close()
	}
	return err
}

// dialControl connects to the process of a lab. It returns nil if there is none.
func dialControl(ctx context.Context, folder string) (net.Conn, error) {
	connection, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(folder, controlSocket))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, nil
	}
	return connection, err
}

// Down stops the process of a lab, blocks until it has ended, and removes leftovers.
func Down(ctx context.Context, name string) error {
	folder, err := stateFolder(name)
	if err != nil {
		return err
	}
	connection, err := dialControl(ctx, folder)
	if err != nil {
		return fmt.Errorf("stopping the process of lab %s: %w", name, err)
	}
	if connection != nil {
		defer func() { _ = connection.Close() }()
		if err := connection.SetReadDeadline(time.Now().Add(stopLimit)); err != nil {
			return err
		}
		release := context.AfterFunc(ctx, func() { _ = connection.Close() })
		defer release()
		// The server sends no data. A killed process ends the connection too.
		if _, err := io.Copy(io.Discard, connection); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			return fmt.Errorf("waiting until lab %s has been stopped: %w", name, err)
		}
	}
	return sweep(ctx, name, folder)
}

// Sweep removes leftovers of a lab in the kernel and on the disk. While a process runs the lab, it waits for half a
// minute, because the guard of an ended process sweeps too, and then returns an error.
func Sweep(ctx context.Context, name string) error {
	folder, err := stateFolder(name)
	if err != nil {
		return err
	}
	return sweep(ctx, name, folder)
}

func sweep(ctx context.Context, name, folder string) error {
	if err := waitUnclaimed(ctx, name); err != nil {
		return err
	}
	if err := machine.Sweep(ctx, name); err != nil {
		return fmt.Errorf("sweeping lab %s: %w", name, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("sweeping lab %s: %w", name, err)
	}
	return nil
}

// waitUnclaimed waits for the guard of a process that has just ended.
func waitUnclaimed(ctx context.Context, name string) error {
	err := wait.PollUntilContextTimeout(ctx, pollEvery, guardLimit, true, func(context.Context) (bool, error) {
		claimed, err := machine.Claimed(name)
		return !claimed, err
	})
	if err != nil {
		return fmt.Errorf("lab %s is in use by another process: stop it first, or choose another name: %w", name, err)
	}
	return nil
}

// Leftovers returns the parts of a lab in the kernel and on the disk. It is empty for a stopped lab.
func Leftovers(name string) ([]string, error) {
	folder, err := stateFolder(name)
	if err != nil {
		return nil, err
	}
	left, err := machine.Leftovers(name)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(folder); err == nil {
		left = append(left, "folder "+folder)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return left, nil
}
