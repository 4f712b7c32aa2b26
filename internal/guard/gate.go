package guard

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
)

// gatePatience is how long a gated program may take to end.
const gatePatience = 5 * time.Second

// Gate runs a program while the interface has one of the addresses, and not otherwise. It returns when the context
// ends, or with the exit code of the program when that ends by itself: whoever started the gate decides what then.
func Gate(ctx context.Context, device string, virtual []netip.Addr, command []string, log *slog.Logger) (int, error) {
	reaper := process.NewReaper()
	defer reaper.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	open := make(chan bool, 1)
	watched := make(chan error, 1)
	go func() {
		watched <- address.Watch(ctx, device, func(seen address.Interface) { latest(open, seen.HasAny(virtual)) })
	}()
	var child *process.Child
	defer func() {
		if child != nil {
			child.Stop(gatePatience)
		}
	}()
	for {
		var ended <-chan struct{}
		if child != nil {
			ended = child.Done()
		}
		select {
		case err := <-watched:
			return 0, err
		case <-ended:
			code := child.ExitCode()
			log.Info("The program ended by itself", "program", command[0], "ending", child.Ending())
			child = nil
			return code, nil
		case now := <-open:
			var err error
			if child, err = passGate(reaper, child, now, command, log); err != nil {
				return 0, err
			}
		}
	}
}

// passGate starts or stops the program where that is needed.
func passGate(reaper *process.Reaper, child *process.Child, open bool, command []string, log *slog.Logger) (
	*process.Child, error) {
	switch {
	case open && child == nil:
		log.Info("The address is here: the program starts", "program", command[0])
		return reaper.Start(process.Program{Path: command[0], Arguments: command[1:], Output: os.Stderr})
	case !open && child != nil:
		child.Stop(gatePatience)
		log.Info("The address is gone: the program ended", "program", command[0], "ending", child.Ending())
		return nil, nil
	default:
		return child, nil
	}
}

// latest replaces what nobody has read yet.
func latest(channel chan bool, value bool) {
	select {
	case <-channel:
	default:
	}
	channel <- value
}

// HeldAndLost says whether the address was here since the marker's container started, and is not any more. It leaves
// the marker when the address is here. The marker lies in the file system of the container: a new one starts clean.
func HeldAndLost(device string, virtual []netip.Addr, marker string) (bool, error) {
	seen, err := address.Observe(device)
	if err != nil {
		return false, err
	}
	if seen.HasAny(virtual) {
		file, err := os.OpenFile(marker, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return false, fmt.Errorf("remembering that the address was here: %w", err)
		}
		return false, file.Close()
	}
	_, err = os.Stat(marker)
	return err == nil, nil
}
