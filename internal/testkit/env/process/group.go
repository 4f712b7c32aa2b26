// Package process runs child programs that end with the program that started them.
//
// A Group is a temporary folder and its children. Closing the group kills the children and removes the folder. If the
// owner is killed, the kernel kills the children (on Linux), and a janitor removes the folder: a shell that waits for
// the end of a pipe of the owner.
//
// Children are killed without a signal to end before that. Their data is discarded, and waiting for their end would
// slow test suites down.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// LogsVariable names the environment variable with a folder for the logs of the children. Without it, the logs are in
// the folder of the group and are removed with it.
const LogsVariable = "METAL3_TESTKIT_LOGS"

// janitorScript waits for the end of the pipe and removes the folder. A child that is being killed may still write to
// it, so the script repeats the removal for five seconds.
const janitorScript = `while read -r line; do :; done
tries=0
until rm -rf -- "$0" || [ "$tries" -ge 50 ]; do tries=$((tries+1)); sleep 0.1; done`

// Group is a temporary folder and its children.
type Group struct {
	folder  string
	logs    string
	janitor *exec.Cmd
	// alive is the end of the pipe that the janitor waits for.
	alive io.Closer
	// starts passes the starts of children to a single thread. The kernel kills the children when the thread that
	// started them ends, and other threads of a Go program may end at any time.
	starts chan func()

	mutex    sync.Mutex
	children []*Child
	ports    []int
	closed   bool
}

// Program is the program of a child.
type Program struct {
	// Name of the log file, without its ending, and of the child in error messages.
	Name string
	Path string
	Args []string
	// Env is added to the environment of the owner.
	Env []string
}

// NewGroup creates a group with a folder whose name starts with prefix.
func NewGroup(prefix string) (*Group, error) {
	folder, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, fmt.Errorf("creating a temporary folder: %w", err)
	}
	group := &Group{folder: folder, logs: folder, starts: make(chan func())}
	if dir := os.Getenv(LogsVariable); dir != "" {
		group.logs = filepath.Join(dir, filepath.Base(folder))
		if err := os.MkdirAll(group.logs, 0o750); err != nil {
			return nil, errors.Join(fmt.Errorf("creating the folder of %s: %w", LogsVariable, err), os.RemoveAll(folder))
		}
	}
	if err := group.startJanitor(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	go group.serveStarts()
	return group, nil
}

// Folder is the temporary folder of the group.
func (g *Group) Folder() string { return g.folder }

// WriteFile writes a file into the folder of the group, readable only by the owner, and returns its path.
func (g *Group) WriteFile(name string, content []byte) (string, error) {
	path := filepath.Join(g.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, content, 0o600)
}

// Start starts a program. The child ends when the group is closed, and when this process ends.
func (g *Group) Start(program Program) (*Child, error) {
	log, err := os.Create(filepath.Join(g.logs, program.Name+".log"))
	if err != nil {
		return nil, fmt.Errorf("creating the log of %s: %w", program.Name, err)
	}
	defer log.Close() //nolint:errcheck // the child has a descriptor of its own
	// The context is not that of the caller: a child lives as long as its group.
	command := exec.CommandContext(context.Background(), program.Path, program.Args...)
	command.Dir = g.folder
	command.Env = append(os.Environ(), program.Env...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = diesWithParent()

	child := &Child{name: program.Name, command: command, logFile: log.Name(), done: make(chan struct{})}
	if err := g.start(child); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program.Name, err)
	}
	return child, nil
}

func (g *Group) start(child *Child) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.closed {
		return errors.New("the group is closed")
	}
	result := make(chan error)
	g.starts <- func() { result <- child.command.Start() }
	if err := <-result; err != nil {
		return err
	}
	go child.wait()
	g.children = append(g.children, child)
	return nil
}

// Port reserves a TCP port of the loopback interface for a child until the group is closed. No other group on this
// machine gets the same port, and no outgoing connection uses it.
func (g *Group) Port() (int, error) {
	port, descriptor, err := reservePort()
	if err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.ports = append(g.ports, descriptor)
	return port, nil
}

// Address reserves a port and returns it as an address of the loopback interface.
func (g *Group) Address() (string, error) {
	port, err := g.Port()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
}

// Close kills the children, the youngest first, and removes the folder. A second call does nothing.
func (g *Group) Close() error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	for i := len(g.children) - 1; i >= 0; i-- {
		g.children[i].Kill()
	}
	close(g.starts)
	for _, descriptor := range g.ports {
		releasePort(descriptor)
	}
	err := g.alive.Close()
	if wait := g.janitor.Wait(); wait != nil {
		err = errors.Join(err, fmt.Errorf("removing %s: %w", g.folder, wait))
	}
	return err
}

func (g *Group) serveStarts() {
	runtime.LockOSThread()
	for start := range g.starts {
		start()
	}
}

func (g *Group) startJanitor() error {
	g.janitor = exec.CommandContext(context.Background(), "/bin/sh", "-c", janitorScript, g.folder)
	g.janitor.Dir = "/"
	// In its own process group, so that Ctrl-C in a terminal does not kill it together with its owner.
	g.janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := g.janitor.StdinPipe()
	if err != nil {
		return err
	}
	g.alive = pipe
	if err := g.janitor.Start(); err != nil {
		return fmt.Errorf("starting the janitor of %s: %w", g.folder, err)
	}
	return nil
}
