package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// EnsureDebootstrap installs debootstrap if it is missing, which requires apt-get and root. It is the only program that
// is installed on the machine itself.
func EnsureDebootstrap(ctx context.Context, progress io.Writer) error {
	if _, err := exec.LookPath("debootstrap"); err == nil {
		return nil
	}
	manager, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("debootstrap and apt-get are missing: install debootstrap with the package manager of " +
			"this machine")
	}
	fmt.Fprintln(progress, "debootstrap is missing: installing it with apt-get")
	for _, arguments := range [][]string{
		{"update", "-q"}, {"install", "-q", "-y", "--no-install-recommends", "debootstrap"},
	} {
		if err := runProgram(exec.CommandContext(ctx, manager, arguments...)); err != nil {
			return fmt.Errorf("installing debootstrap (install it manually for details): %w", err)
		}
	}
	return nil
}
