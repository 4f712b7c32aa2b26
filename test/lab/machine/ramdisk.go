package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// LiveFile is the file of a live medium with the key of its root file system.
const LiveFile = "live/rootfs"

// Paths in the system of a ramdisk.
const (
	// MediumFolder has the files of the booted medium.
	MediumFolder = "/medium"
	// BoardFolder has data of the machine's firmware, and the socket of its disk.
	BoardFolder = "/board"
	// NameFile in BoardFolder has the name of the machine, its serial number.
	NameFile = "name"
	// DiskSocket in BoardFolder is the socket for writes to the disk.
	DiskSocket = "disk"
)

// DiskWrite is the body of PUT /disk at DiskSocket. DELETE /disk wipes the disk.
type DiskWrite struct {
	// RootKey is the key of the root file system of the image.
	RootKey string `json:"rootKey"`
	// Drive are the files of the config drive by their paths.
	Drive map[string][]byte `json:"drive"`
}

// BuildRamdisk builds the root file system of a ramdisk in a folder: the agent is its only program.
func BuildRamdisk(ctx context.Context, checkout, folder string) error {
	if err := os.MkdirAll(filepath.Join(folder, "sbin"), 0o755); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
		"-o", filepath.Join(folder, "sbin", "init"), "./test/lab/agent/init")
	command.Dir = checkout
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the agent of the ramdisk: %w\n%s", err, output)
	}
	return nil
}

// PowerOnFrom powers the machine on and boots from a medium: its live system, or else the ramdisk, which gets the files
// of the medium. The disk does not change until the ramdisk writes it. PowerOnFrom does nothing if the machine is on.
func (m *Machine) PowerOnFrom(ctx context.Context, medium map[string][]byte) error {
	return m.change(ctx, "booting from a medium", func() error {
		return m.on(ctx, func(ctx context.Context) error {
			if key, live := medium[LiveFile]; live {
				return m.bootLive(ctx, strings.TrimSpace(string(key)))
			}
			return m.bootRamdisk(ctx, medium)
		})
	})
}

// bootLive boots the system of a live medium. It writes to memory, which the next boot discards.
func (m *Machine) bootLive(ctx context.Context, key string) error {
	lower, err := m.lower(key)
	if err != nil {
		return err
	}
	memory := disk{dir: m.path("live")}
	if err := memory.wipe(); err != nil {
		return err
	}
	if err := memory.write(key, "", nil); err != nil {
		return err
	}
	return m.boot(ctx, memory.plan(lower), func(ctx context.Context) error { return m.bootLive(ctx, key) })
}

func (m *Machine) bootRamdisk(ctx context.Context, medium map[string][]byte) error {
	if m.spec.Ramdisk == "" {
		return errors.New("the machine has no ramdisk")
	}
	folder := m.path("ramdisk")
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("removing the ramdisk of an earlier boot: %w", err)
	}
	plan := Plan{
		Lower: m.spec.Ramdisk, Upper: filepath.Join(folder, "upper"), Work: filepath.Join(folder, "work"),
		Binds: map[string]string{MediumFolder: filepath.Join(folder, "medium"), BoardFolder: filepath.Join(folder, "board")},
	}
	for _, made := range []string{plan.Upper, plan.Work} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return err
		}
	}
	if err := writeTree(plan.Binds[MediumFolder], medium); err != nil {
		return fmt.Errorf("presenting the medium: %w", err)
	}
	if err := writeTree(plan.Binds[BoardFolder], map[string][]byte{NameFile: []byte(m.spec.Name)}); err != nil {
		return err
	}
	board, err := m.serveDisk(ctx, filepath.Join(plan.Binds[BoardFolder], DiskSocket))
	if err != nil {
		return err
	}
	m.state.Lock()
	m.board = board
	m.state.Unlock()
	return m.boot(ctx, plan, m.bootDisk)
}

// board connects a ramdisk to the disk of its machine.
type board struct {
	server *http.Server
}

func (b *board) close() error {
	if b == nil {
		return nil
	}
	return b.server.Close()
}

func (m *Machine) serveDisk(ctx context.Context, socket string) (*board, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("serving the disk: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("DELETE /disk", func(writer http.ResponseWriter, request *http.Request) {
		answer(writer, m.change(request.Context(), "wiping the disk", func() error {
			return errors.Join(m.disk().wipe(), m.EjectMedia())
		}))
	})
	mux.HandleFunc("PUT /disk", func(writer http.ResponseWriter, request *http.Request) {
		var wanted DiskWrite
		err := json.NewDecoder(request.Body).Decode(&wanted)
		if err == nil {
			err = m.change(request.Context(), "writing the disk", func() error { return m.install(wanted) })
		}
		answer(writer, err)
	})
	made := &board{server: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}}
	// Serve returns only after Close.
	go func() { _ = made.server.Serve(listener) }()
	return made, nil
}

// install writes an image and a config drive to the disk. An interrupted write does not boot.
func (m *Machine) install(wanted DiskWrite) error {
	if _, err := m.lower(wanted.RootKey); err != nil {
		return err
	}
	if err := errors.Join(m.disk().wipe(), m.EjectMedia()); err != nil {
		return err
	}
	if len(wanted.Drive) > 0 {
		if err := m.InsertMedia(wanted.Drive); err != nil {
			return err
		}
	}
	return m.disk().write(wanted.RootKey, m.spec.Store, m.spec.LinkStore)
}

func answer(writer http.ResponseWriter, err error) {
	if err != nil {
		http.Error(writer, err.Error(), http.StatusInternalServerError)
		return
	}
	writer.WriteHeader(http.StatusNoContent)
}
