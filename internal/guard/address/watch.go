package address

import (
	"context"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
)

// lookAgain is how long an observation is trusted without an event: the kernel may drop events of a slow reader.
const lookAgain = 10 * time.Second

// Watch calls the function with what is observed of the interface, at once and after each change of any interface or
// address, until the context ends. The function is not called twice at a time.
func Watch(ctx context.Context, name string, changed func(Interface)) error {
	for ctx.Err() == nil {
		if err := watchOnce(ctx, name, changed); err != nil {
			return err
		}
	}
	return nil
}

// watchOnce returns without an error when the context ends or when the kernel lost events.
func watchOnce(ctx context.Context, name string, changed func(Interface)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := func(error) { cancel() }
	addresses := make(chan netlink.AddrUpdate, 64)
	err := netlink.AddrSubscribeWithOptions(addresses, ctx.Done(), netlink.AddrSubscribeOptions{ErrorCallback: lost})
	if err != nil {
		return fmt.Errorf("subscribing to changes of addresses: %w", err)
	}
	links := make(chan netlink.LinkUpdate, 64)
	err = netlink.LinkSubscribeWithOptions(links, ctx.Done(), netlink.LinkSubscribeOptions{ErrorCallback: lost})
	if err != nil {
		cancel()
		drain(addresses)
		return fmt.Errorf("subscribing to changes of interfaces: %w", err)
	}
	// The subscriptions write until they notice the end of the context; they must not block on nobody.
	defer drain(addresses)
	defer drain(links)
	defer cancel()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		observed, err := Observe(name)
		if err != nil {
			return err
		}
		changed(observed)
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		case <-addresses:
		case <-links:
		}
	}
}

func drain[T any](updates <-chan T) {
	go func() {
		for range updates {
			continue
		}
	}()
}
