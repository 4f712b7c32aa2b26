package address

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
)

// lookAgain is how long an observation is trusted without an event.
const lookAgain = 10 * time.Second

// Groups of events, from rtnetlink.h of the kernel.
const (
	linkGroup     = 1
	address4Group = 5
	address6Group = 9
)

// Watch calls the function with what is observed of the interface, at once and after each change of it or of its
// addresses, until the context ends. The function is not called twice at a time. That an address is given more time is
// no change, nor is anything of another interface: both happen all the time.
func Watch(ctx context.Context, name string, changed func(Interface)) error {
	events, err := dial(linkGroup, address4Group, address6Group)
	if err != nil {
		return err
	}
	defer events.close()
	defer context.AfterFunc(ctx, events.close)()
	for ctx.Err() == nil {
		// What happens from here on waits to be read.
		observed, err := Observe(name)
		if err != nil {
			return err
		}
		changed(observed)
		if err := events.await(func(event syscall.NetlinkMessage) bool { return observed.lacks(event, name) }); err != nil &&
			ctx.Err() == nil {
			return fmt.Errorf("waiting for changes of addresses: %w", err)
		}
	}
	return nil
}

// await returns when the kernel told news or dropped some, which it does for a slow reader, and after lookAgain.
func (k *kernel) await(isNews func(syscall.NetlinkMessage) bool) error {
	if err := k.file.SetReadDeadline(time.Now().Add(lookAgain)); err != nil {
		return err
	}
	for {
		events, err := k.receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ENOBUFS):
			return nil
		case err != nil:
			return err
		case slices.ContainsFunc(events, isNews):
			return nil
		}
	}
}

// lacks says whether the event brings something new. One that cannot be read may.
func (i Interface) lacks(event syscall.NetlinkMessage, name string) bool {
	switch event.Header.Type {
	case syscall.RTM_NEWADDR, syscall.RTM_DELADDR:
		return i.lacksAddress(event)
	case syscall.RTM_NEWLINK, syscall.RTM_DELLINK:
		return i.lacksLink(event.Data, name)
	default:
		return false
	}
}

func (i Interface) lacksAddress(event syscall.NetlinkMessage) bool {
	if len(event.Data) < syscall.SizeofIfAddrmsg || i.Index == 0 {
		return true
	}
	if int(nl.DeserializeIfAddrmsg(event.Data).Index) != i.Index {
		return false
	}
	read, err := readEntry(event.Data)
	return err != nil || event.Header.Type == syscall.RTM_DELADDR || !slices.Contains(i.Addresses, read.prefix) ||
		read.isUnusable() != slices.Contains(i.Unusable, read.prefix.Addr())
}

// lacksLink also looks at other interfaces: one may get the name, or be a port of the bridge.
func (i Interface) lacksLink(message []byte, name string) bool {
	if len(message) < syscall.SizeofIfInfomsg || i.Index == 0 {
		return true
	}
	header := nl.DeserializeIfInfomsg(message)
	if int(header.Index) == i.Index || slices.Contains(i.uplinks, int(header.Index)) {
		return true
	}
	attributes, err := nl.ParseRouteAttrAsMap(message[header.Len():])
	master := attributes[syscall.IFLA_MASTER].Value
	return err != nil || len(master) == 4 && int(binary.NativeEndian.Uint32(master)) == i.Index ||
		strings.TrimRight(string(attributes[syscall.IFLA_IFNAME].Value), "\x00") == name
}
