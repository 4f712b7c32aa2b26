package machine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

func TestMachineBootsWithItsConfigDriveAndKeepsItsDisk(t *testing.T) {
	lab := start(t, "m-boot")
	one, other := lab.add(t, "one", 20), lab.add(t, "other", 21)
	for number, made := range map[byte]*machine.Machine{20: one, 21: other} {
		install(t, made, number)
		must(t, made.PowerOn(t.Context()))
	}
	booted(t, one)
	booted(t, other)

	t.Log("cloud-init applied the config drive")
	if got := run(t, one, "cat", "/etc/from-user-data"); got != "hello one" {
		t.Errorf("the file from user_data: got %q", got)
	}
	if got := run(t, one, "hostname"); got != "one" {
		t.Errorf("host name: got %q", got)
	}
	for _, address := range []netip.Addr{network.Address4(21), network.Address6(21), netip.MustParseAddr(network.Gateway6)} {
		run(t, one, "ping", "-c", "1", "-w", "20", address.String())
	}

	t.Log("the machine has no disk of the computer and cannot restart it")
	if got := run(t, one, "find", "/dev", "-type", "b"); got != "" {
		t.Errorf("block devices: got %s", got)
	}
	// Some kernels lack the file.
	run(t, one, "sh", "-c", "test ! -e /proc/sysrq-trigger || test -c /proc/sysrq-trigger")

	t.Log("a system powers itself off")
	must(t, one.Shutdown(t.Context()))
	if one.Powered() || one.Running() {
		t.Error("the machine is on after a shutdown")
	}
	if console := read(t, one.Console()); !strings.Contains(console, "Reached target") || !strings.Contains(console, "Power") {
		t.Errorf("the console does not show the boot and the shutdown, but:\n%s", console)
	}

	t.Log("the disk survives")
	must(t, one.PowerOn(t.Context()))
	booted(t, one)
	if got := run(t, one, "sh", "-c", "cat /etc/from-user-data; echo; journalctl --list-boots | wc -l"); got != "hello one\n2" {
		t.Errorf("after the second boot: got %q", got)
	}
}

func TestWritingTheDiskStartsAfresh(t *testing.T) {
	lab := start(t, "m-disk")
	made := lab.add(t, "one", 20)

	t.Log("without an image the power is on and no system runs")
	must(t, made.PowerOn(t.Context()))
	if !made.Powered() || made.Running() {
		t.Errorf("powered %t, running %t", made.Powered(), made.Running())
	}
	if _, err := made.Run(t.Context(), "true"); !errors.Is(err, machine.ErrNotRunning) {
		t.Errorf("running a command: got %v, want %v", err, machine.ErrNotRunning)
	}

	install(t, made, 20)
	must(t, made.Reset(t.Context()))
	booted(t, made)
	run(t, made, "sh", "-c", "echo precious > /var/lib/kubelet/data; echo precious > /root/data; sync")
	if got := run(t, made, "cat", "/var/lib/containerd/image"); got != "from the store" {
		t.Errorf("the store: got %q", got)
	}
	if err := made.WriteDisk(t.Context(), rootKey); !errors.Is(err, machine.ErrRunning) {
		t.Errorf("writing the disk of a running system: got %v, want %v", err, machine.ErrRunning)
	}

	must(t, made.PowerOff(t.Context()))
	if err := made.WriteDisk(t.Context(), "no-such-image"); err == nil || !strings.Contains(err.Error(), "no-such-image") {
		t.Errorf("writing an unknown image: got %v, want an error that names it", err)
	}
	must(t, made.WriteDisk(t.Context(), rootKey))
	must(t, made.EjectMedia())
	must(t, made.PowerOn(t.Context()))
	answers(t, made)
	if got := run(t, made, "sh", "-c", "ls -d /var/lib/cloud/seed/* /root/data /var/lib/kubelet/data /etc/from-user-data 2>/dev/null || true"); got != "" {
		t.Errorf("left of the earlier system: %s", got)
	}
	if err := made.InsertMedia(map[string][]byte{"../outside": nil}); err == nil {
		t.Error("media with a file outside of the drive was accepted")
	}
}

func TestSystemRestartsAndTurnsOffByItself(t *testing.T) {
	lab := start(t, "m-self")
	made := lab.add(t, "one", 20)
	install(t, made, 20)
	must(t, made.PowerOn(t.Context()))
	booted(t, made)
	run(t, made, "touch", "/run/before")
	restart(t, made, "reboot")
	await(t, "the machine to come back", func() error {
		if _, err := made.Run(t.Context(), "test", "!", "-e", "/run/before"); err != nil {
			return err
		}
		return nil
	})
	booted(t, made)
	restart(t, made, "poweroff")
	await(t, "the machine to be off", func() error {
		if made.Powered() {
			return errors.New("it is on")
		}
		return nil
	})
}

func TestCommandsGoDownWithThePower(t *testing.T) {
	lab := start(t, "m-exec")
	made := lab.add(t, "one", 20)
	install(t, made, 20)
	must(t, made.PowerOn(t.Context()))
	booted(t, made)
	t.Setenv("SECRET_OF_THE_CALLER", "leaked")
	if got := run(t, made, "env"); strings.Contains(got, "leaked") {
		t.Errorf("the environment of the caller is visible: %s", got)
	}
	_, err := made.Run(t.Context(), "sh", "-c", "echo what went wrong >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "what went wrong") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a command that fails: got %v", err)
	}
	command, err := made.Command(t.Context(), "sleep", "infinity")
	if err != nil {
		t.Fatal(err)
	}
	must(t, command.Start())
	await(t, "the command to run", func() error {
		_, err := made.Run(t.Context(), "pgrep", "sleep")
		return err
	})
	must(t, made.PowerOff(t.Context()))
	if err := command.Wait(); err == nil {
		t.Error("the command ended well though the power was cut")
	}
}

func TestPulledCableStaysPulledOverAPowerCycle(t *testing.T) {
	lab := start(t, "m-cable")
	made := lab.add(t, "one", 20)
	install(t, made, 20)
	must(t, made.LinkDown(t.Context()))
	must(t, made.PowerOn(t.Context()))
	answers(t, made)
	flags := func() string { return run(t, made, "sh", "-c", "ip link set eth0 up; ip link show eth0") }
	if got := flags(); !strings.Contains(got, "NO-CARRIER") {
		t.Errorf("with the cable pulled: got %s", got)
	}
	must(t, made.LinkUp(t.Context()))
	if got := flags(); strings.Contains(got, "NO-CARRIER") {
		t.Errorf("with the cable plugged in: got %s", got)
	}
}

func TestPartitionSeparatesMachines(t *testing.T) {
	lab := start(t, "m-split")
	one, other := lab.add(t, "one", 20), lab.add(t, "other", 21)
	for number, made := range map[byte]*machine.Machine{20: one, 21: other} {
		install(t, made, number)
		must(t, made.PowerOn(t.Context()))
	}
	booted(t, one)
	booted(t, other)
	both := []string{network.Address4(21).String(), network.Address6(21).String()}
	for _, address := range both {
		run(t, one, "ping", "-c", "1", "-w", "20", address)
	}
	must(t, lab.network.Partition([]string{"one"}, []string{"other"}))
	for _, address := range both {
		if output, err := one.Run(t.Context(), "ping", "-c", "2", "-w", "2", address); err == nil {
			t.Errorf("across the partition: %s", output)
		}
	}
	must(t, lab.network.Heal())
	for _, address := range both {
		run(t, one, "ping", "-c", "1", "-w", "20", address)
	}
}

func TestTwoLabsHaveMachinesOfTheSameName(t *testing.T) {
	first, second := start(t, "m-two"), start(t, "m-two-x")
	for _, lab := range []*lab{first, second} {
		made := lab.add(t, "one", 20)
		install(t, made, 20)
		must(t, made.PowerOn(t.Context()))
	}
	booted(t, first.machines["one"])
	run(t, first.machines["one"], "touch", "/root/mine")
	first.stop(t)
	booted(t, second.machines["one"])
	if got := run(t, second.machines["one"], "ls", "/root"); got != "" {
		t.Errorf("a machine of another lab has the files %s", got)
	}
}

func TestClaimedNameCannotBeClaimedAgain(t *testing.T) {
	lab := start(t, "m-claim")
	ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	_, err := machine.Acquire(ctx, lab.name, t.TempDir(), program)
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("claiming a name twice: got %v", err)
	}
	if claimed, err := machine.Claimed(lab.name); err != nil || !claimed {
		t.Errorf("claimed: got %t, %v", claimed, err)
	}
	lab.stop(t)
	start(t, lab.name)
}

func TestSpecIsChecked(t *testing.T) {
	lab := start(t, "m-spec")
	good := lab.spec("one", 20)
	for name, spoil := range map[string]func(*machine.Spec){
		"claim":  func(s *machine.Spec) { s.Claim = nil },
		"Name":   func(s *machine.Spec) { s.Name = "One" },
		"colon":  func(s *machine.Spec) { s.Dir = "/tmp/a:b" },
		"folder": func(s *machine.Spec) { s.Dir = "relative" },
		"store":  func(s *machine.Spec) { s.Store, s.LinkStore = "/store", nil },
	} {
		spec := good
		spoil(&spec)
		if _, err := machine.New(spec); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(name)) {
			t.Errorf("%s: got %v, want an error that names it", name, err)
		}
	}
}

func TestDeadProcessLeavesNothing(t *testing.T) {
	prepare(t)
	const name = "m-crash"
	clean(t, name)
	holder := holdReady(t, name)
	before := leftovers(t, name)
	for _, kind := range []string{"process ", "control group ", "network namespace ", "mount ", "claim "} {
		if !strings.Contains(strings.Join(before, "\n"), kind) {
			t.Errorf("the running lab has no %s: %v", kind, before)
		}
	}
	must(t, holder.Kill())
	if _, err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	await(t, "the guard to remove everything", func() error {
		if left := leftovers(t, name); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

func TestNextClaimRemovesLeftovers(t *testing.T) {
	prepare(t)
	const name = "m-unguarded"
	holder := holdReady(t, name)
	guard, err := os.FindProcess(guardOf(t, holder.Pid))
	must(t, err)
	must(t, guard.Kill())
	must(t, holder.Kill())
	_, err = holder.Wait()
	must(t, err)
	await(t, "the name to be free", func() error {
		if claimed, err := machine.Claimed(name); claimed || err != nil {
			return fmt.Errorf("claimed: %t, %w", claimed, err)
		}
		return nil
	})
	if left := leftovers(t, name); len(left) == 0 {
		t.Error("the killed lab left nothing")
	}
	next := start(t, name)
	if left := strings.Join(leftovers(t, name), "\n"); strings.Contains(left, "process ") || strings.Contains(left, "control group ") {
		t.Errorf("left of the earlier lab:\n%s", left)
	}
	next.stop(t)
}

// guardOf returns the guard of a process.
func guardOf(t *testing.T, parent int) int {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, entry := range entries {
		// The process may have ended meanwhile.
		arguments, _ := os.ReadFile(entry)
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(entry), "status"))
		if strings.Contains(string(arguments), "\x00guard\x00") &&
			strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", parent)) {
			var id int
			_, err := fmt.Sscanf(entry, "/proc/%d/", &id)
			must(t, err)
			return id
		}
	}
	t.Fatalf("process %d has no guard", parent)
	return 0
}

// holdReady starts a process with a lab that has two running machines.
func holdReady(t *testing.T, name string) *os.Process {
	t.Helper()
	holder, output := hold(t, name)
	await(t, "the other process to power its machines on", func() error {
		if content := read(t, output); !strings.Contains(content, "ready") {
			return fmt.Errorf("it printed %q", content)
		}
		return nil
	})
	return holder
}

// install writes the image to the disk of the machine and inserts a config drive.
func install(t *testing.T, made *machine.Machine, number byte) {
	t.Helper()
	must(t, made.WriteDisk(t.Context(), rootKey))
	must(t, made.InsertMedia(configDrive(made.Name(), number)))
}

func configDrive(name string, number byte) map[string][]byte {
	type fields = map[string]any
	encode := func(value any) []byte {
		content, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		return content
	}
	data := "#cloud-config\nwrite_files:\n- {path: /etc/from-user-data, content: hello " + name + "}\n"
	return map[string][]byte{
		"openstack/latest/user_data": []byte(data),
		"openstack/latest/meta_data.json": encode(fields{
			"uuid": "00000000-0000-0000-0000-0000000000" + fmt.Sprintf("%02x", number), "hostname": name, "name": name,
		}),
		"openstack/latest/network_data.json": encode(fields{
			"links": []fields{{
				"id": "eth0", "type": "phy", "ethernet_mac_address": network.HardwareAddress(number).String(), "mtu": 1500,
			}},
			"networks": []fields{
				{
					"id": "4", "link": "eth0", "type": "ipv4", "ip_address": network.Address4(number).String(),
					"netmask": "255.255.255.0",
					"routes":  []fields{{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": network.Gateway4}},
				},
				{
					"id": "6", "link": "eth0", "type": "ipv6", "ip_address": network.Address6(number).String(),
					"netmask": net.IP(net.CIDRMask(64, 128)).String(),
					"routes":  []fields{{"network": "::", "netmask": "::", "gateway": network.Gateway6}},
				},
			},
			"services": []fields{},
		}),
	}
}

// booted waits until the system has started completely, without failed units.
func booted(t *testing.T, made *machine.Machine) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console of %s:\n%s", made.Name(), read(t, made.Console()))
		}
	})
	await(t, made.Name()+" to boot", func() error {
		output, err := made.Run(t.Context(), "systemctl", "is-system-running")
		if strings.TrimSpace(string(output)) == "degraded" {
			failed := run(t, made, "systemctl", "--failed", "--no-legend")
			t.Fatalf("units failed:\n%s\n%s", failed, read(t, made.Console()))
		}
		return err
	})
}

// answers waits until the system runs commands. Without a network a complete start takes minutes.
func answers(t *testing.T, made *machine.Machine) {
	t.Helper()
	await(t, made.Name()+" to answer", func() error {
		_, err := made.Run(t.Context(), "systemctl", "show", "--property=Version")
		return err
	})
}

// restart ends the system by a command on it. The connection may break before the response.
func restart(t *testing.T, made *machine.Machine, how string) {
	t.Helper()
	command, err := made.Command(t.Context(), "systemctl", "--force", how)
	if err != nil {
		t.Fatal(err)
	}
	_ = command.Run()
}

func run(t *testing.T, made *machine.Machine, args ...string) string {
	t.Helper()
	output, err := made.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(output))
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func leftovers(t *testing.T, lab string) []string {
	t.Helper()
	left, err := machine.Leftovers(lab)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func await(t *testing.T, what string, do func() error) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	limit := time.After(2 * time.Minute)
	for {
		err := do()
		if err == nil {
			return
		}
		select {
		case <-limit:
			t.Fatalf("waiting for %s: %v", what, err)
		case <-ticker.C:
		}
	}
}

func noDiff(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// folder returns the folder of a lab. It ends like those of all labs, which are found by it.
func folder(name string) string { return filepath.Join(cache, "labs", name) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
