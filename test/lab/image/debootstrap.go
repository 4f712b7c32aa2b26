package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// EnsureDebootstrap installs debootstrap where it is missing, which needs apt-get and root. It is the one program that
// the machine itself gets.
func EnsureDebootstrap(ctx context.Context, progress io.Writer) error {
	if _, err := exec.LookPath("debootstrap"); err == nil {
		return nil
	}
	manager, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("debootstrap is missing and so is apt-get; install debootstrap with the package manager of " +
			"this machine")
	}
	fmt.Fprintln(progress, "debootstrap is missing: installing it with apt-get")
	for _, arguments := range [][]string{
		{"update", "-q"}, {"install", "-q", "-y", "--no-install-recommends", "debootstrap"},
	} {
		if err := runProgram(exec.CommandContext(ctx, manager, arguments...)); err != nil {
			return fmt.Errorf("installing debootstrap (do it by hand to see more): %w", err)
		}
	}
	return nil
}
