package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

// owner is the user that a container of another image runs as.
type owner struct {
	user, group int
}

func parseOwner(text string) (owner, error) {
	user, group, _ := strings.Cut(text, ":")
	userNumber, userErr := strconv.ParseUint(user, 10, 31)
	groupNumber, groupErr := strconv.ParseUint(group, 10, 31)
	if userErr != nil || groupErr != nil {
		return owner{}, fmt.Errorf("--owner is %q; give the numbers of user and group like 997:994", text)
	}
	return owner{int(userNumber), int(groupNumber)}, nil
}

// prepareCommand copies this program for other containers. For a user other than root it creates directories, and
// copies of files that only root can read.
func prepareCommand(_ context.Context, arguments []string, environment Environment) (int, error) {
	flags := newFlags("prepare", environment)
	tools := flags.String("install", "", "absolute path of a directory to copy this program into")
	whose := flags.String("owner", "", "numeric user and group of the created files, like 997:994")
	var closed, directories []string
	var copies []copied
	several(flags, "closed", "absolute path of a directory to close for all but its owner", &closed)
	several(flags, "directory", "absolute path of a directory to create", &directories)
	pairs(flags, "copy", "file and of its copy, which has the mode 0400; may be repeated",
		func(pair copied) { copies = append(copies, pair) })
	if err := flags.Parse(arguments); err != nil {
		return exitUsage, err
	}
	if *tools == "" && len(closed)+len(directories)+len(copies) == 0 {
		return exitUsage, errors.New("--install, --closed, --directory or --copy is required")
	}
	var to owner
	if len(directories)+len(copies) > 0 {
		var err error
		if to, err = parseOwner(*whose); err != nil {
			return exitUsage, err
		}
	}
	var failures []error
	if *tools != "" {
		failures = append(failures, install(*tools))
	}
	for _, directory := range closed {
		failures = append(failures, closeDirectory(directory))
	}
	for _, directory := range directories {
		failures = append(failures, to.directory(directory, 0o755))
	}
	for _, pair := range copies {
		failures = append(failures, to.copy(pair))
	}
	return 0, errors.Join(failures...)
}

// install copies this program.
func install(directory string) error {
	if !filepath.IsAbs(directory) {
		return fmt.Errorf("--install is %q; give an absolute path", directory)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return track.Replace(filepath.Join(directory, "guard"), content, 0o755)
}

// closeDirectory lets only the owner into a directory, because cloud-init creates directories that all users may
// list. It skips read-only directories, such as a mounted Secret, which has its own modes.
func closeDirectory(path string) error {
	//nolint:gosec // A directory needs the right to enter it.
	err := os.Chmod(path, 0o700)
	if errors.Is(err, syscall.EROFS) {
		return nil
	}
	return err
}

// directory creates a directory and its parents. An existing directory keeps its mode, and existing parents their
// owner.
func (o owner) directory(path string, mode fs.FileMode) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("directory %q is not an absolute path", path)
	}
	path = filepath.Clean(path)
	if path == "/" {
		return nil
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := o.parent(path, mode); err != nil {
			return err
		}
		if err := os.Mkdir(path, mode); err != nil {
			return err
		}
	case err != nil:
		return err
	// The user can write here, and root changes owners at each start: with a link, the user would choose the file.
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory: remove it", path)
	default:
		if err := refuseLinks(filepath.Dir(path)); err != nil {
			return err
		}
	}
	return os.Lchown(path, o.user, o.group)
}

// parent creates the parent directory, if there is none.
func (o owner) parent(path string, mode fs.FileMode) error {
	above := filepath.Dir(path)
	if _, err := os.Lstat(above); errors.Is(err, fs.ErrNotExist) {
		return o.directory(above, mode)
	}
	return refuseLinks(above)
}

// refuseLinks returns an error if a part of the path is a link.
func refuseLinks(path string) error {
	place, err := filepath.EvalSymlinks(path)
	if err == nil && place != path {
		return fmt.Errorf("%s is a link to %s: replace the link with a directory", path, place)
	}
	return err
}

// copy replaces the copy of a file. Only the user can read it.
func (o owner) copy(pair copied) error {
	content, err := os.ReadFile(pair.from)
	if err != nil {
		return err
	}
	return o.write(pair.to, content)
}

// write replaces a file that only the user can read.
func (o owner) write(to string, content []byte) error {
	if !filepath.IsAbs(to) {
		return fmt.Errorf("copy %q is not an absolute path", to)
	}
	to = filepath.Clean(to)
	if err := o.parent(to, 0o700); err != nil {
		return err
	}
	if err := track.Replace(to, content, 0o400); err != nil {
		return err
	}
	return os.Lchown(to, o.user, o.group)
}
