package machine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// TestMachineBootsARamdiskFromAMedium boots an agent that posts its inventory, and writes the disk through the socket
// of the board as the agent does. A machine without power must not write.
func TestMachineBootsARamdiskFromAMedium(t *testing.T) {
	lab := start(t, "m-ramdisk")
	checkout, err := binaries.Root()
	must(t, err)
	ramdisk := t.TempDir()
	must(t, machine.BuildRamdisk(t.Context(), checkout, ramdisk))
	spec := lab.spec("one", 20)
	spec.Ramdisk = ramdisk
	one, err := machine.New(spec)
	must(t, err)
	posted := inspector(t, lab.network)

	must(t, one.PowerOnFrom(t.Context(), map[string][]byte{"EFI/BOOT/grub.cfg": []byte(
		"linux /vmlinuz nofb ipa-inspection-callback-url=http://" + network.Gateway4 + ":5050/v1/continue_inspection --\n")}))
	select {
	case body := <-posted:
		checkInventory(t, body, network.HardwareAddress(20).String())
	case <-time.After(time.Minute):
		t.Fatalf("no inventory; console:\n%s", read(t, one.Console()))
	}
	if !one.RunsRamdisk() {
		t.Error("RunsRamdisk is false while the ramdisk runs")
	}

	socket := filepath.Join(spec.Dir, "ramdisk", "board", machine.DiskSocket)
	write := func(key string) int { return writeDisk(t, socket, key) }
	if status := write("unknown"); status != http.StatusInternalServerError {
		t.Errorf("writing an unknown image: %d", status)
	}
	if status := write(rootKey); status != http.StatusNoContent {
		t.Errorf("writing the image: %d", status)
	}
	if got := read(t, filepath.Join(spec.Dir, "disk", "installed")); got != rootKey+"\n" {
		t.Errorf("installed is %q", got)
	}

	t.Log("the power button ends the ramdisk, which powers the machine off")
	must(t, one.Shutdown(t.Context()))
	if one.Powered() || one.RunsRamdisk() {
		t.Errorf("the machine is on: powered %t, ramdisk %t", one.Powered(), one.RunsRamdisk())
	}
	if status := write(rootKey); status != 0 {
		t.Errorf("a machine without power wrote its disk: %d", status)
	}
	if _, err := os.Stat(filepath.Join(spec.Dir, "media")); err != nil {
		t.Errorf("the config drive: %v", err)
	}
	must(t, one.Remove(t.Context()))
}

// checkInventory compares the inventory that an agent posted with the machine "one".
func checkInventory(t *testing.T, body []byte, mac string) {
	t.Helper()
	var report struct {
		Inventory struct {
			Hostname   string
			Interfaces []struct {
				MAC string `json:"mac_address"`
			}
		}
	}
	must(t, json.Unmarshal(body, &report))
	got := report.Inventory
	if got.Hostname != "one" || len(got.Interfaces) != 1 || got.Interfaces[0].MAC != mac {
		t.Errorf("the inventory is %+v", got)
	}
}

// TestMachineBootsTheSystemOfAMedium boots a live system on a machine with a system on its disk.
func TestMachineBootsTheSystemOfAMedium(t *testing.T) {
	lab := start(t, "m-live")
	one := lab.add(t, "one", 20)
	install(t, one, 20)
	must(t, one.PowerOnFrom(t.Context(), map[string][]byte{machine.LiveFile: []byte(rootKey + "\n")}))
	answers(t, one)
	const left = "ls -d /var/lib/cloud/seed/* /root/data /var/lib/kubelet/data /var/lib/containerd/image 2>/dev/null || true"
	if got := run(t, one, "sh", "-c", left); got != "" {
		t.Errorf("the live system sees the disk: %s", got)
	}

	t.Log("a live system that reboots starts from the medium again, without its files")
	run(t, one, "sh", "-c", "touch /root/data /var/lib/kubelet/data /run/before; sync")
	restart(t, one, "reboot")
	await(t, "the live system to come back", func() error {
		_, err := one.Run(t.Context(), "test", "!", "-e", "/run/before")
		return err
	})
	answers(t, one)
	if got := run(t, one, "sh", "-c", left); got != "" {
		t.Errorf("after a reboot: %s", got)
	}

	t.Log("the disk is unchanged")
	must(t, one.PowerOff(t.Context()))
	must(t, one.PowerOn(t.Context()))
	booted(t, one)
	if got := run(t, one, "cat", "/etc/from-user-data"); got != "hello one" {
		t.Errorf("the file from user_data: got %q", got)
	}
	must(t, one.PowerOff(t.Context()))
	if err := one.PowerOnFrom(t.Context(), map[string][]byte{machine.LiveFile: []byte("unknown")}); err == nil || one.Powered() {
		t.Errorf("a medium with an unknown system: powered %t, %v", one.Powered(), err)
	}
}

// inspector receives inventories on the network of a lab.
func inspector(t *testing.T, on *network.Switch) <-chan []byte {
	t.Helper()
	posted := make(chan []byte, 1)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(writer http.ResponseWriter, request *http.Request) {
			body, _ := io.ReadAll(request.Body)
			posted <- body
			writer.WriteHeader(http.StatusAccepted)
		})}
	listener, err := on.Listen(t.Context(), "tcp", network.Gateway4+":5050")
	must(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return posted
}

// writeDisk requests a write of the disk, as the agent does. It returns the status, or 0 without a response.
func writeDisk(t *testing.T, socket, key string) int {
	t.Helper()
	body, err := json.Marshal(machine.DiskWrite{RootKey: key, Drive: map[string][]byte{"openstack/latest/user_data": nil}})
	must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://board/disk", bytes.NewReader(body))
	must(t, err)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	must(t, response.Body.Close())
	return response.StatusCode
}
