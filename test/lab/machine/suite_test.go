package machine_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// rootKey is the key of the only image.
	rootKey = "test"
	// holdVariable makes the test program a process with a lab of that name until it is killed.
	holdVariable = "METAL3_TEST_HOLDS_LAB"
	// programVariable is the path of the program that sets machines up.
	programVariable = "METAL3_TEST_STAGE"
)

// Shared state of all tests, set before the first one.
var (
	// cache is the folder of the labs.
	cache string
	// rootFolder is a root file system of an earlier lab, or empty.
	rootFolder string
	// program is the program that sets machines up.
	program string
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runTests(m *testing.M) (int, error) {
	var err error
	if cache, err = binaries.CacheDir(); err != nil {
		return 1, err
	}
	rootFolder = newestRoot(cache)
	if lab := os.Getenv(holdVariable); lab != "" {
		program = os.Getenv(programVariable)
		return 1, holdLab(lab)
	}
	if os.Geteuid() != 0 || rootFolder == "" {
		return m.Run(), nil
	}
	checkout, err := binaries.Root()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "stage")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "stage")
	if err := machine.Build(context.Background(), checkout, program); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// newestRoot returns a root file system that can boot. A lab builds it in minutes.
func newestRoot(cache string) string {
	inits, err := filepath.Glob(filepath.Join(cache, "lab-root-*", "lib", "systemd", "systemd"))
	if err != nil {
		return ""
	}
	var newest string
	var made int64
	for _, init := range inits {
		root := filepath.Dir(filepath.Dir(filepath.Dir(init)))
		facts, err := os.Stat(root)
		if err == nil && filepath.Ext(root) == "" && facts.ModTime().UnixNano() > made {
			newest, made = root, facts.ModTime().UnixNano()
		}
	}
	return newest
}

// lab is a switch with machines.
type lab struct {
	name     string
	claim    *machine.Claim
	network  *network.Switch
	machines map[string]*machine.Machine
}

// prepare skips a test that cannot run here.
func prepare(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to create machines")
	}
	if rootFolder == "" {
		t.Skipf("%s has no root file system of machines: start a lab once", cache)
	}
}

// start starts a lab, which is removed at the end of the test.
func start(t *testing.T, name string) *lab {
	t.Helper()
	prepare(t)
	clean(t, name)
	started, err := newLab(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { started.stop(t) })
	return started
}

// clean removes the files of a lab at the end of the test. It must be called before the lab is started.
func clean(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		if err := os.RemoveAll(folder(name)); err != nil {
			t.Error(err)
		}
	})
}

func newLab(ctx context.Context, name string) (*lab, error) {
	claim, err := machine.Acquire(ctx, name, folder(name), program)
	if err != nil {
		return nil, err
	}
	made, err := network.Create(name)
	return &lab{name: name, claim: claim, network: made, machines: map[string]*machine.Machine{}}, err
}

func (l *lab) stop(t *testing.T) {
	t.Helper()
	if l.claim == nil {
		return
	}
	if err := l.claim.Release(context.Background()); err != nil {
		t.Error(err)
	}
	l.claim = nil
	noDiff(t, "left after releasing the lab", []string(nil), leftovers(t, l.name))
}

func (l *lab) add(t *testing.T, name string, number byte) *machine.Machine {
	t.Helper()
	made, err := machine.New(l.spec(name, number))
	if err != nil {
		t.Fatal(err)
	}
	l.machines[name] = made
	return made
}

func (l *lab) spec(name string, number byte) machine.Spec {
	return machine.Spec{
		Claim: l.claim, Switch: l.network, Name: name, Number: number,
		Dir: filepath.Join(folder(l.name), "machines", name),
		Root: func(key string) (string, error) {
			if key != rootKey {
				return "", fmt.Errorf("unknown image %s", key)
			}
			return rootFolder, nil
		},
		Store: "a store",
		LinkStore: func(_, to string) error {
			if err := os.Mkdir(to, 0o711); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(to, "image"), []byte("from the store\n"), 0o644)
		},
	}
}

// hold starts a process with a lab of two machines, and returns it and its output file.
func hold(t *testing.T, name string) (*os.Process, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = output.Close() }()
	holder := exec.CommandContext(context.WithoutCancel(t.Context()), self)
	holder.Env = append(os.Environ(), holdVariable+"="+name, programVariable+"="+program)
	holder.Stdout, holder.Stderr = output, output
	// The holder ends with this process, however that ends.
	alive, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	// The test may fail before it kills the process.
	t.Cleanup(func() { _, _ = alive.Close(), holder.Process.Kill() })
	return holder.Process, output.Name()
}

func holdLab(name string) error {
	ctx := context.Background()
	held, err := newLab(ctx, name)
	if err != nil {
		return err
	}
	for number, name := range map[byte]string{20: "one", 21: "other"} {
		made, err := machine.New(held.spec(name, number))
		if err != nil {
			return err
		}
		if err := made.WriteDisk(ctx, rootKey); err != nil {
			return err
		}
		if err := made.PowerOn(ctx); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
