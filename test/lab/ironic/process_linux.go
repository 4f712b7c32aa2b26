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
	// startLimit is how long Ironic may take from its start to a working conductor. Five seconds are usual.
	startLimit = 2 * time.Minute
	// stopLimit is how long Ironic may take to end by itself.
	stopLimit = 15 * time.Second
	// program is Ironic itself, which the EntryPoint becomes.
	program = "/usr/bin/ironic"
	// pollEvery is how often a starting Ironic is asked whether it works.
	pollEvery = 100 * time.Millisecond
)

// Options say how Run starts an Ironic.
type Options struct {
	// Root is a root file system of EnsureRoot. It is not changed.
	Root string
	// Config is how Ironic is set up. Without an Address it is 127.0.0.1, without a Port a free one.
	Config Config
	// Credentials must hold for the address. Without a user name they are made for it.
	Credentials Credentials
	// NetworkNamespace is the file of the network namespace to run in. Default: that of this process.
	NetworkNamespace string
	// State is a folder of this machine for what Ironic writes, such as its database. Default: memory.
	State string
	// KeepsDatabase starts Ironic with the database and the users that an earlier one left in State.
	KeepsDatabase bool
	// Log takes what Ironic writes. Default: nowhere.
	Log io.Writer
}

// Process is a running Ironic. Without a State its database is in memory and gone when it stops.
type Process struct {
	// Config and Credentials are complete: every default is filled in.
	Config      Config
	Credentials Credentials

	dial    Dialer
	command *exec.Cmd
	tail    *tail
	done    chan struct{}
	ended   error

	keepsDatabase bool
}

// Run starts Ironic from its root file system and returns when its conductor works. It needs root. Everything it makes
// lives in a mount namespace of its own and ends with it; the processes end when this process does.
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

// prepare fills in the defaults and makes the files of ConfigDir.
func prepare(options Options) (*Process, map[string][]byte, error) {
	if os.Geteuid() != 0 {
		return nil, nil, errors.New("starting a program in a root file system of its own needs root")
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
		if credentials, err = NewCredentials(time.Now(), config.Address); err != nil {
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

// Endpoint is the URL of the API.
func (p *Process) Endpoint() string { return p.Config.Endpoint() }

// Client is a client of this Ironic.
func (p *Process) Client() (*gophercloud.ServiceClient, error) {
	return NewClient(p.Endpoint(), p.Credentials, p.dial)
}

// Dial opens a connection in the network namespace of this Ironic.
func (p *Process) Dial() Dialer { return p.dial }

// Done is closed when Ironic has ended, for any reason, and nothing of it is left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends Ironic, by force after 15 seconds or when the context ends, and returns when nothing of it is left.
func (p *Process) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	// A process that has ended already needs no signal.
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.command.Process.Kill()
		<-p.done
	}
	return p.ended
}

// live is the whole life of one Ironic, on one thread. It reports on started once Ironic runs, or why it does not.
func (p *Process) live(ctx context.Context, place Place, content map[string][]byte, started chan<- error) error {
	if err := place.Enter(); err != nil {
		started <- errors.Join(err, place.Leave())
		return nil
	}
	// Ironic outlives the context of the call that starts it.
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
	// What Ironic needs to find its programs and to write text.
	p.command.Env = []string{"PATH=/usr/sbin:/usr/bin", "HOME=" + StateDir, "LC_ALL=C.UTF-8"}
	p.command.Stdout, p.command.Stderr = p.tail, p.tail
	p.command.WaitDelay = time.Second
	p.command.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root,
		// All processes of Ironic end with it.
		Cloneflags: syscall.CLONE_NEWPID,
		Credential: &syscall.Credential{Uid: UserID, Gid: UserID},
		// The thread that starts Ironic lives as long as Ironic, so this is the end of the whole process.
		Pdeathsig: syscall.SIGKILL,
	}
	return p.command.Start()
}

// waitReady waits for a conductor that offers a driver: an API alone answers before that.
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
		if last = p.ask(ctx, client); last == nil {
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

func (p *Process) ask(ctx context.Context, client *http.Client) error {
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
		return fmt.Errorf("asking for the driver redfish: %s", response.Status)
	}
	return nil
}
