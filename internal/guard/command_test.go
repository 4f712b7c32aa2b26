package guard_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard"
)

// command runs a command in this process.
func command(variables map[string]string, arguments ...string) (int, string) {
	var said safeBuffer
	code := guard.Main(context.Background(), arguments, guard.Environment{
		Getenv: func(name string) string { return variables[name] }, Errors: &said,
	})
	return code, said.String()
}

func TestMainReturnsErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arguments []string
		code      int
		says      string
	}{
		"unknown command":       {arguments: []string{"dance"}, code: 2, says: `"dance" is no command`},
		"unknown flag":          {arguments: []string{"run", "--dance"}, code: 2, says: "-dance"},
		"gate without a gate":   {arguments: []string{"gate", "--", "true"}, code: 2, says: "--until-lost"},
		"gate without program":  {arguments: []string{"gate", "--while-vip"}, code: 2, says: "program"},
		"gate, no such program": {arguments: []string{"gate", "--while-vip", "--interface=lo", "--addresses=10.9.8.7", "--", "/no/such"}, code: 1, says: "/no/such"},
		"gate, no address":      {arguments: []string{"gate", "--while-vip", "--interface=lo", "--addresses=here", "--", "true"}, code: 2, says: "192.0.2.2"},
		"gate, no flags":        {arguments: []string{"gate", "--while-vip", "--", "true"}, code: 2, says: "--addresses are required"},
		"gate, no interface":    {arguments: []string{"gate", "--while-vip", "--addresses=10.9.8.7", "--", "true"}, code: 2, says: "--interface-file"},
		"gate, no addresses":    {arguments: []string{"gate", "--while-vip", "--interface=lo", "--", "true"}, code: 2, says: "--addresses are required"},
		"gate, two interfaces":  {arguments: []string{"gate", "--while-vip", "--interface=lo", "--interface-file=/no", "--addresses=10.9.8.7", "--", "true"}, code: 2, says: "not both"},
		"prepare nothing":       {arguments: []string{"prepare"}, code: 2, says: "--install"},
		"install in the air":    {arguments: []string{"prepare", "--install=a"}, code: 1, says: "absolute"},
		"install nowhere":       {arguments: []string{"prepare", "--install=/dev/null"}, code: 1, says: "/dev/null"},
		"prepare without owner": {arguments: []string{"prepare", "--directory=/a"}, code: 2, says: "997:994"},
		"prepare for root only": {arguments: []string{"prepare", "--owner=ironic", "--directory=/a"}, code: 2, says: "997:994"},
		"prepare half a copy":   {arguments: []string{"prepare", "--owner=1:1", "--copy=/a"}, code: 2, says: "/from:/to"},
		"prepare in the air":    {arguments: []string{"prepare", "--owner=1:1", "--directory=a"}, code: 1, says: "absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, said := command(nil, test.arguments...); code != test.code || !strings.Contains(said, test.says) {
				t.Errorf("code %d, said %q", code, said)
			}
		})
	}
	if code, said := command(nil, "gate", "--help"); code != 0 || !strings.Contains(said, "-while-vip") {
		t.Errorf("help: code %d, said %q", code, said)
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("requires root to change owners of files")
	}
	folder := t.TempDir()
	from, to, shared := filepath.Join(folder, "from"), filepath.Join(folder, "private", "auth", "to"), filepath.Join(folder, "a", "b")
	for _, content := range []string{"first", "second"} {
		must(t, os.WriteFile(from, []byte(content), 0o600))
		if code, said := command(nil, "prepare", "--owner=997:994", "--directory="+shared, "--copy="+from+":"+to); code != 0 {
			t.Fatalf("code %d, said %q", code, said)
		}
		if got, err := os.ReadFile(to); err != nil || string(got) != content {
			t.Errorf("the copy is %q, %v", got, err)
		}
	}
	for path, mode := range map[string]os.FileMode{
		to: 0o400, filepath.Dir(to): 0o700 | os.ModeDir, filepath.Dir(filepath.Dir(to)): 0o700 | os.ModeDir,
		shared: 0o755 | os.ModeDir, filepath.Dir(shared): 0o755 | os.ModeDir,
	} {
		info, err := os.Stat(path)
		must(t, err)
		system, _ := info.Sys().(*syscall.Stat_t)
		if system.Uid != 997 || system.Gid != 994 || info.Mode() != mode {
			t.Errorf("%s has %s and belongs to %d:%d", path, info.Mode(), system.Uid, system.Gid)
		}
	}
	info, err := os.Stat(folder)
	must(t, err)
	if system, _ := info.Sys().(*syscall.Stat_t); system.Uid != 0 {
		t.Error("the owner of an existing directory was changed")
	}
}

// TestPrepareCloses removes the permissions of other users from the directory of the node.
func TestPrepareCloses(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("requires root to mount a directory")
	}
	folder := t.TempDir()
	first, second := filepath.Join(folder, "first"), filepath.Join(folder, "second")
	must(t, os.Mkdir(first, 0o755))
	must(t, os.Mkdir(second, 0o755))
	if code, said := command(nil, "prepare", "--owner=997:994", "--closed="+first, "--closed="+second); code != 0 {
		t.Fatalf("code %d, said %q", code, said)
	}
	for _, closed := range []string{first, second} {
		info, err := os.Stat(closed)
		must(t, err)
		system, _ := info.Sys().(*syscall.Stat_t)
		if info.Mode().Perm() != 0o700 || system.Uid != 0 {
			t.Errorf("the directory has %s and belongs to %d", info.Mode(), system.Uid)
		}
	}
	if code, said := command(nil, "prepare", "--owner=997:994", "--closed="+filepath.Join(folder, "none")); code != 1 {
		t.Errorf("a missing directory: code %d, said %q", code, said)
	}
	secret := filepath.Join(folder, "secret")
	must(t, os.Mkdir(secret, 0o755))
	mounted := readOnly(secret, func() error {
		if code, said := command(nil, "prepare", "--owner=997:994", "--closed="+secret); code != 0 {
			t.Errorf("a Secret: code %d, said %q", code, said)
		}
		return nil
	})
	if mounted != nil {
		t.Skipf("cannot mount: %v", mounted)
	}
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("a Secret: %v, %v", info.Mode(), err)
	}
}

// TestPrepareFollowsNoLinks prepares a directory with a link. A user with access to the directory must not choose the
// files whose owner root changes.
func TestPrepareFollowsNoLinks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	treasure := filepath.Join(folder, "treasure")
	must(t, os.Mkdir(treasure, 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "from"), []byte("x"), 0o600))
	must(t, os.Symlink(treasure, filepath.Join(folder, "link")))
	for _, arguments := range [][]string{
		{"--directory=" + filepath.Join(folder, "link")},
		{"--directory=" + filepath.Join(folder, "link", "below")},
		{"--copy=" + filepath.Join(folder, "from") + ":" + filepath.Join(folder, "link", "copy")},
	} {
		code, said := command(nil, append([]string{"prepare", "--owner=997:994"}, arguments...)...)
		if code != 1 || !strings.Contains(said, "link") {
			t.Errorf("%v: code %d, said %q", arguments, code, said)
		}
	}
	entries, err := os.ReadDir(treasure)
	if err != nil || len(entries) > 0 {
		t.Errorf("something was written through the link: %v, %v", entries, err)
	}
	info, err := os.Stat(treasure)
	must(t, err)
	if system, _ := info.Sys().(*syscall.Stat_t); system.Uid == 997 {
		t.Error("the owner of the directory behind the link was changed")
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	binary, err := buildOnce()
	must(t, err)
	folder := t.TempDir()
	must(t, exec.CommandContext(context.Background(), binary, "prepare", "--install="+folder).Run())
	output, err := exec.CommandContext(context.Background(), filepath.Join(folder, "guard"), "dance").CombinedOutput()
	if !strings.Contains(string(output), "is no command") {
		t.Errorf("the copy does not run: %v: %s", err, output)
	}
}

// run starts the program with other arguments. The channel receives its error.
func (n *node) run(arguments ...string) <-chan error {
	n.lab.t.Helper()
	command := exec.CommandContext(context.Background(), n.lab.binary, arguments...)
	command.Stdout, command.Stderr = n.said, n.said
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	n.process = command
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		_ = within(n.space, func() error {
			err := command.Start()
			started <- err
			if err == nil {
				ended <- command.Wait()
			}
			return nil
		})
	}()
	must(n.lab.t, <-started)
	n.lab.t.Cleanup(func() { _ = command.Process.Signal(syscall.SIGTERM) })
	return ended
}

func TestProbesOfARunningGuard(t *testing.T) {
	t.Parallel()
	_, n := alone(t)
	for _, probe := range []string{"livez", "readyz"} {
		if code, body := n.get("/" + probe); code != http.StatusOK {
			t.Errorf("%s says %d %s", probe, code, body)
		}
	}
	_, page := n.get("/metrics")
	for _, line := range []string{
		"metal3_guard_vip_holder 1", "metal3_guard_ironic_ok 1", `metal3_guard_armed{reason="Management"} 1`,
		`metal3_guard_vip_transitions_total{to="holder"} 1`, "metal3_guard_keepalived_running 1",
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("the metrics lack %q", line)
		}
	}
}

func TestDownloadCommand(t *testing.T) {
	t.Parallel()
	present := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(present, []byte("there"), 0o600))
	record := "--record=" + filepath.Join(t.TempDir(), "sums")
	cases := map[string]struct {
		arguments []string
		code      int
	}{
		"Present":   {[]string{"download", "--image=" + present, record, "--", "/none"}, 0},
		"NoImage":   {[]string{"download", record, "--", "/none"}, 2},
		"NoRecord":  {[]string{"download", "--image=" + present, "--", "/none"}, 2},
		"NoProgram": {[]string{"download", "--image=" + present, record}, 2},
		"NoFlag":    {[]string{"download", "--picture=" + present, "--", "/none"}, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, said := command(nil, tc.arguments...); code != tc.code {
				t.Errorf("code %d, want %d; said %q", code, tc.code, said)
			}
		})
	}
}
