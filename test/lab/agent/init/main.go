// Command init is the only process of a ramdisk: a deploy agent. The lab builds it and boots it on its machines.
package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/agent"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
)

// powerButton is the signal of the power button of a machine: SIGRTMIN+4 of the C library.
const powerButton = syscall.Signal(34 + 4)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	ctx, stop := signal.NotifyContext(context.Background(), powerButton)
	err := run(ctx, log)
	stop()
	if err != nil {
		// The machine stays on, as after a failure of a real ramdisk.
		log.Error("the agent ended", "error", err.Error())
		select {}
	}
	if err := powerOff(); err != nil {
		log.Error("powering the machine off", "error", err.Error())
		select {}
	}
}

func run(ctx context.Context, log *slog.Logger) error {
	medium, err := readMedium()
	if err != nil {
		return err
	}
	parameters, err := agent.ReadParameters(medium)
	if err != nil {
		return err
	}
	name, err := os.ReadFile(path.Join(machine.BoardFolder, machine.NameFile))
	if err != nil {
		return err
	}
	card, err := bringUp(medium["openstack/latest/network_data.json"])
	if err != nil {
		return fmt.Errorf("bringing up the network: %w", err)
	}
	log.Info("the ramdisk runs", "machine", string(name), "address", card.address.String())
	made, err := agent.New(agent.Options{
		Parameters: parameters, Machine: newHardware(strings.TrimSpace(string(name)), card.number),
		Node: bmc.ImageURL(bmc.NodeImage), MAC: card.mac, Address: card.address, Log: log,
	})
	if err != nil {
		return err
	}
	return made.Run(ctx)
}

func readMedium() (map[string][]byte, error) {
	files := map[string][]byte{}
	root := os.DirFS(machine.MediumFolder)
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the medium: %w", err)
	}
	return files, nil
}

func powerOff() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) }
