package network

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// Sweep removes all namespaces of a lab, and with them its bridge, cables and routes. Nothing has to be there. The
// processes of the machines have to be gone before, because a namespace lives as long as a process in it.
func Sweep(lab string) error {
	if err := CheckLab(lab); err != nil {
		return err
	}
	names, err := namesOf(lab)
	if err != nil {
		return err
	}
	failures := make([]error, 0, len(names))
	for _, name := range names {
		failures = append(failures, remove(name))
	}
	return errors.Join(failures...)
}

// Leftovers names what there still is of a lab: its namespaces, and links of it that strayed out of them.
func Leftovers(lab string) ([]string, error) {
	names, err := namesOf(lab)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, name := range names {
		left = append(left, "network namespace "+name)
	}
	links, err := allLinks()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		if Belongs(lab, link.Attrs().Alias) {
			left = append(left, fmt.Sprintf("network interface %s (%s)", link.Attrs().Name, link.Attrs().Alias))
		}
	}
	return left, nil
}

// listings is how often listing links is tried: it fails when another program adds or removes one at the same time.
const listings = 10

func allLinks() ([]netlink.Link, error) {
	var links []netlink.Link
	var err error
	for range listings {
		links, err = netlink.LinkList()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	return links, nil
}
