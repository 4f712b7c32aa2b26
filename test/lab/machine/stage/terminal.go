package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openTerminal opens a terminal: data that is written to the second file can be read from the first.
func openTerminal() (first, second *os.File, err error) {
	first, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(first.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlocking: %w", err)
	}
	number, err := unix.IoctlGetInt(int(first.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("reading its number: %w", err)
	}
	second, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	return first, second, err
}
