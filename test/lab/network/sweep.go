package network

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// Sweep deletes all namespaces of a lab with its bridge, cables and routes, if they exist. The processes of the
// machines must have ended, because a process keeps its namespace alive.
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

// Leftovers returns the names of the namespaces of a lab, and of its links outside of them.
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

// listings limits the attempts to list links. Listing fails while another program adds or removes a link.
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
