package ironic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

const (
	// startLimit is the time limit from the start to a working conductor, usually five seconds.
	startLimit = 2 * time.Minute
	// stopLimit is the time limit for the end of Ironic after SIGTERM.
	stopLimit = 15 * time.Second
	// program is Ironic itself, which the EntryPoint executes.
	program = "/usr/bin/ironic"
	// pollEvery is the interval of probes of a starting Ironic.
	pollEvery = 100 * time.Millisecond
)

// Options are the settings of Run.
type Options struct {
	// Root is a root file system of EnsureRoot, which does not change.
	Root string
	// Config is the configuration of Ironic. The default Address is 127.0.0.1, the default Port a free one.
	Config Config
	// Credentials must be valid for the address. Without a user name they are created.
	Credentials Credentials
	// NetworkNamespace is the file of the network namespace to run in. Default: that of this process.
	NetworkNamespace string
	// State is a folder of this machine for the files of Ironic, such as its database. Default: memory.
	State string
	// KeepsDatabase keeps the database and the users of an earlier Ironic in State.
	KeepsDatabase bool
	// Log receives the output of Ironic. Nil discards it.
	Log io.Writer
}

// Process is a running Ironic. Without a State its database is in memory and ends with it.
type Process struct {
	// Config and Credentials are complete, with all defaults.
	Config      Config
	Credentials Credentials

	dial    Dialer
	command *exec.Cmd
	tail    *tail
	done    chan struct{}
	ended   error

	keepsDatabase bool
}

// Run starts Ironic from its root file system and blocks until its conductor works. It requires root. All mounts are in
// their own mount namespace and end with it. The processes end with this process.
func Run(ctx context.Context, options Options) (*Process, error) {
	process, content, err := prepare(options)
	if err != nil {
		return nil, fmt.Errorf("preparing Ironic: %w", err)
	}
	scratch, err := os.MkdirTemp("", "lab-ironic-")
	if err != nil {
		return nil, err
	}
	place := Place{Namespace: options.NetworkNamespace, Root: options.Root, Scratch: scratch}
	if options.State != "" {
		place.Shared = map[string]string{StateDir: options.State}
		if err := os.Chown(options.State, UserID, UserID); err != nil {
			return nil, err
		}
	}
	started := make(chan error)
	go func() {
		defer close(process.done)
		defer func() { process.ended = errors.Join(process.ended, os.Remove(scratch)) }()
		process.ended = thread.Own(func() error { return process.live(ctx, place, content, started) })
	}()
	if err := <-started; err != nil {
		<-process.done
		return nil, fmt.Errorf("starting Ironic from %s: %w", options.Root, err)
	}
	if err := process.waitReady(ctx); err != nil {
		_ = process.command.Process.Kill()
		<-process.done
		return nil, fmt.Errorf("starting Ironic on %s: %w\n%s", process.Endpoint(), err, process.tail)
	}
	return process, nil
}

// prepare sets the defaults and creates the files of ConfigDir.
func prepare(options Options) (*Process, map[string][]byte, error) {
	if os.Geteuid() != 0 {
		return nil, nil, errors.New("starting a program in a root file system requires root")
	}
	config := options.Config
	setDefault(&config.Address, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	port, err := freePort(options.NetworkNamespace, config.Address, config.Port)
	if err != nil {
		return nil, nil, fmt.Errorf("taking port %d of %s: %w", config.Port, config.Address, err)
	}
	config.Port = port
	credentials := options.Credentials
	if credentials.Username == "" {
		if credentials, err = NewCredentials(config.Address); err != nil {
			return nil, nil, err
		}
	}
	content, err := files(config, credentials)
	if err != nil {
		return nil, nil, err
	}
	return &Process{
		Config: config.withDefaults(), Credentials: credentials, dial: dialerIn(options.NetworkNamespace),
		tail: &tail{to: options.Log}, done: make(chan struct{}), keepsDatabase: options.KeepsDatabase,
	}, content, nil
}

// Endpoint returns the URL of the API.
func (p *Process) Endpoint() string { return p.Config.Endpoint() }

// Client returns a client of this Ironic.
func (p *Process) Client() (*gophercloud.ServiceClient, error) {
	return NewClient(p.Endpoint(), p.Credentials, p.dial)
}

// Dial returns a dialer in the network namespace of this Ironic.
func (p *Process) Dial() Dialer { return p.dial }

// Done is closed when Ironic has ended and its mounts are removed.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends Ironic, with SIGKILL after 15 seconds or the end of the context, and blocks until its mounts are removed.
func (p *Process) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	// Signal fails only for a process that has ended.
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.command.Process.Kill()
		<-p.done
	}
	return p.ended
}

// live runs one Ironic on one thread until its end. It reports on started when Ironic runs, or the error.
func (p *Process) live(ctx context.Context, place Place, content map[string][]byte, started chan<- error) error {
	if err := place.Enter(); err != nil {
		started <- errors.Join(err, place.Leave())
		return nil
	}
	// Ironic outlives the context of the caller.
	if err := p.start(context.WithoutCancel(ctx), place.View(), content); err != nil {
		started <- errors.Join(err, place.Leave())
		return nil
	}
	started <- nil
	_ = p.command.Wait()
	return place.Leave()
}

func (p *Process) start(ctx context.Context, root string, content map[string][]byte) error {
	for name, value := range content {
		path := filepath.Join(root, ConfigDir, name)
		if err := os.WriteFile(path, value, 0o400); err != nil {
			return err
		}
		if err := os.Chown(path, UserID, UserID); err != nil {
			return err
		}
	}
	images := filepath.Join(root, StateDir, ImagesDir)
	if err := errors.Join(os.MkdirAll(images, 0o755), os.Chown(images, UserID, UserID)); err != nil {
		return err
	}
	command := []string{EntryPoint, "--credentials", ConfigDir}
	if p.keepsDatabase {
		command = []string{program}
	}
	p.command = exec.CommandContext(ctx, command[0], append(command[1:], "--config-file", ConfigDir+"/"+configFile)...)
	p.command.Dir = "/"
	// PATH, the folder of the user, and the encoding.
	p.command.Env = []string{"PATH=/usr/sbin:/usr/bin", "HOME=" + StateDir, "LC_ALL=C.UTF-8"}
	p.command.Stdout, p.command.Stderr = p.tail, p.tail
	p.command.WaitDelay = time.Second
	p.command.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root,
		// All processes of Ironic end with it.
		Cloneflags: syscall.CLONE_NEWPID,
		Credential: &syscall.Credential{Uid: UserID, Gid: UserID},
		// The thread that starts Ironic lives as long as Ironic, so this signal means the end of this process.
		Pdeathsig: syscall.SIGKILL,
	}
	return p.command.Start()
}

// waitReady waits for a conductor with a driver. The API answers before that.
func (p *Process) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	client, err := p.Credentials.HTTPClient(p.dial)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var last error
	for {
		if last = p.request(ctx, client); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-p.done:
			return errors.New("it ended")
		case <-ticker.C:
		}
	}
}

func (p *Process) request(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Endpoint()+"drivers/redfish", nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth(p.Credentials.Username, p.Credentials.Password)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("reading the driver redfish: %s", response.Status)
	}
	return nil
}
