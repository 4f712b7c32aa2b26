package guard

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
)

// InterfaceMark stands for the name of the interface in the arguments of the program of a gate.
const InterfaceMark = "{interface}"

// FolderMark stands for a directory in the arguments of the program of a gate: see Gate.Folders.
const FolderMark = "{folder}"

// choose replaces the interface settings with the name of the interface. The choice lasts until the guard ends or the
// settings change, also if the interface loses its addresses.
func (g *guard) choose(settings vip.NodeSettings) (vip.NodeSettings, error) {
	if settings.Interface != "" {
		return settings, nil
	}
	if g.choice.Interface == "" || !slices.Equal(g.choice.MACAddresses, settings.MACAddresses) ||
		g.choice.InterfaceCIDR != settings.InterfaceCIDR {
		links, err := address.Links()
		if err != nil {
			return settings, err
		}
		chosen, err := address.Choose(settings, links)
		if err != nil {
			return settings, fmt.Errorf("choosing the interface: %w", err)
		}
		g.log.Info("Chose the interface", "interface", chosen, "macAddresses", settings.MACAddresses,
			"interfaceCIDR", settings.InterfaceCIDR)
		g.choice = settings
		g.choice.Interface = chosen
	}
	settings.Interface, settings.MACAddresses, settings.InterfaceCIDR = g.choice.Interface, nil, netip.Prefix{}
	return settings, nil
}

// watchNamed watches the interface of the flags, or the one in the file until the file changes.
func (p *passage) watchNamed(ctx context.Context, changed func(address.Interface)) {
	if p.InterfaceFile == "" {
		p.watch(ctx, p.Interface, changed)
		return
	}
	for name := p.awaitOther(ctx, ""); name != ""; {
		p.log.Info("The guard chose the interface", "interface", name)
		p.device.Store(name)
		watching, cancel := context.WithCancel(ctx)
		next := make(chan string, 1)
		go func() {
			next <- p.awaitOther(ctx, name)
			cancel()
		}()
		p.watch(watching, name, changed)
		name = <-next
	}
}

// awaitOther returns the name of another interface once the file has it. It returns an empty name when the context
// ends.
func (p *passage) awaitOther(ctx context.Context, name string) string {
	for ctx.Err() == nil {
		content, _ := os.ReadFile(p.InterfaceFile)
		if found := strings.TrimSpace(string(content)); found != "" && found != name {
			return found
		}
		pause(ctx, settingsInterval)
	}
	return ""
}

// program returns the program of the gate, with the interface and the directory in its arguments, and with the
// interface in PROVISIONING_INTERFACE.
func (p *passage) program(variables []string) process.Program {
	var marks []string
	if device, is := p.device.Load().(string); is {
		marks = append(marks, InterfaceMark, device)
		variables = append(slices.Clone(variables), variableInterface+"="+device)
	}
	if len(p.Folders) > 0 {
		marks = append(marks, FolderMark, p.folder())
	}
	fill := strings.NewReplacer(marks...)
	arguments := slices.Clone(p.Command[1:])
	for i := range arguments {
		arguments[i] = fill.Replace(arguments[i])
	}
	return process.Program{Path: p.Command[0], Arguments: arguments, Variables: variables, Output: os.Stderr}
}

// folder returns the first of the directories that has files, or the last one.
func (p *passage) folder() string {
	for _, folder := range p.Folders {
		if files, err := os.ReadDir(folder); err == nil && len(files) > 0 {
			return folder
		}
	}
	return p.Folders[len(p.Folders)-1]
}
