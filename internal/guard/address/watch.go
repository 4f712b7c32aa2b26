package address

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
)

// lookAgain is how long an observation is trusted without an event: the kernel may drop events of a slow reader.
const lookAgain = 10 * time.Second

// Watch calls the function with what is observed of the interface, at once and after each change of it or of its
// addresses, until the context ends. The function is not called twice at a time. That an address is given more time is
// no change, nor is anything of another interface: both happen all the time.
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
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case <-again.C:
				waiting = false
			case update := <-addresses:
				waiting = observed.knows(update)
			case update := <-links:
				waiting = observed.isOther(update, name)
			}
		}
	}
}

// isOther says whether the update is about another interface than this one and the one of the name.
func (i Interface) isOther(update netlink.LinkUpdate, name string) bool {
	return i.Index != 0 && update.Link != nil && update.Attrs().Index != i.Index && update.Attrs().Name != name
}

// knows says whether the update brings nothing new.
func (i Interface) knows(update netlink.AddrUpdate) bool {
	if i.Index == 0 || update.LinkIndex != i.Index {
		return i.Index != 0
	}
	address, valid := netip.AddrFromSlice(update.LinkAddress.IP)
	bits, _ := update.LinkAddress.Mask.Size()
	address = address.Unmap()
	usable := update.Flags&unusableFlags == 0 && !address.IsLinkLocalUnicast()
	return update.NewAddr && valid && slices.Contains(i.Addresses, netip.PrefixFrom(address, bits)) &&
		usable != slices.Contains(i.Unusable, address)
}

func drain[T any](updates <-chan T) {
	go func() {
		for range updates {
			continue
		}
	}()
}
