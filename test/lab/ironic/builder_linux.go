package ironic

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// stepLimit is the time limit of one step of building the root file system.
const stepLimit = 40 * time.Minute

// builder runs the steps that build a folder, at low priority.
type builder struct {
	dir      string
	progress io.Writer
}

// run runs one program and prints messages meanwhile.
func (b builder) run(ctx context.Context, what string, command ...string) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	step := exec.CommandContext(ctx, "nice", command...)
	step.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive",
	}
	// All processes and mounts of the programs end with the first process of these namespaces, which ends with this
	// process.
	step.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	var output bytes.Buffer
	step.Stdout, step.Stderr = &output, &output

	fmt.Fprintf(b.progress, "[ironic] %s\n", what)
	if err := step.Start(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	report := func(passed time.Duration) { fmt.Fprintf(b.progress, "[ironic] %s: %s so far\n", what, passed) }
	if err := binaries.Await(step.Wait, report); err != nil {
		return fmt.Errorf("%s (%s): %w\n%s", what, command[0], err, output.Bytes())
	}
	return nil
}

func (b builder) write(path string, mode fs.FileMode, content string) error {
	path = filepath.Join(b.dir, path)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// linkTree clones a tree with hard links. Folders and symbolic links are new.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return linkEntry(path, filepath.Join(to, relative), entry)
	})
}

func linkEntry(from, to string, entry fs.DirEntry) error {
	switch {
	case entry.IsDir():
		return copyDir(from, to)
	case entry.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	default:
		return os.Link(from, to)
	}
}

func copyDir(from, to string) error {
	var status syscall.Stat_t
	if err := syscall.Stat(from, &status); err != nil {
		return &fs.PathError{Op: "stat", Path: from, Err: err}
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := os.Chown(to, int(status.Uid), int(status.Gid)); err != nil {
		return err
	}
	// os.Chmod has its own representation of the sticky and set-group bits.
	return syscall.Chmod(to, status.Mode&0o7777)
}
