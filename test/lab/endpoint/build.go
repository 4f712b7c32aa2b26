package endpoint

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

// buildLimit is the time limit for compiling one program.
const buildLimit = 10 * time.Minute

// entrySources are all files of the entry points, which import only the standard library. With the version of Go they
// define the built program.
//
//go:embed cmd/entry entry
var entrySources embed.FS

// imitationKey changes with the content of the image of Ironic with the entry points of the lab.
func imitationKey() (string, error) {
	parts := []string{
		ironic.RootKey(), runtime.Version(), runtime.GOARCH, fmt.Sprint(firmware(), entryPoints(""), ironicEnvironment()),
		ironicUser,
	}
	err := fs.WalkDir(entrySources, ".", func(name string, file fs.DirEntry, err error) error {
		if err != nil || file.IsDir() || !isSource(name) {
			return err
		}
		content, err := entrySources.ReadFile(name)
		parts = append(parts, name, string(content))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading the sources of the entry points: %w", err)
	}
	return hash(parts...), nil
}

// isSource returns true for a file of a program that is not a test.
func isSource(name string) bool {
	return !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "/testdata/")
}

// hash returns a hash of the parts that is short enough for a tag.
func hash(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintln(sum, len(part))
		_, _ = io.WriteString(sum, part)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// source is a program of a checkout with its build options.
type source struct {
	checkout, pkg string
	flags         []string
}

func entryProgram(checkout string) source {
	return source{checkout: checkout, pkg: "./test/lab/endpoint/cmd/entry"}
}

// guardSource is built like the image of a release.
func guardSource(checkout string) source {
	return source{
		checkout: checkout, pkg: "./cmd/guard",
		flags: []string{"-tags=nethttpomithttp2,netgo,osusergo"},
	}
}

// built is a built program with the key of its content.
type built struct{ path, key string }

// build compiles a static program into a folder of the cache that is named by its content, so that a later build does
// not change it.
func build(ctx context.Context, source source) (built, error) {
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	cache, err := binaries.CacheDir()
	if err != nil {
		return built{}, err
	}
	scratch, err := os.MkdirTemp(cache, "lab-endpoint-*.partial")
	if err != nil {
		return built{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	target := filepath.Join(scratch, filepath.Base(source.pkg))
	arguments := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", target}, source.flags...)
	command := exec.CommandContext(ctx, "go", append(arguments, source.pkg)...)
	command.Dir = source.checkout
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return built{}, fmt.Errorf("building %s of %s: %w\n%s", source.pkg, source.checkout, err, output)
	}
	content, err := os.ReadFile(target)
	if err != nil {
		return built{}, err
	}
	key := hash(string(content))
	if err := os.Chmod(scratch, 0o755); err != nil {
		return built{}, err
	}
	final := filepath.Join(cache, "lab-endpoint-"+key)
	// Rename replaces only an empty folder. An existing folder has the same content.
	if err := os.Rename(scratch, final); err != nil && !errors.Is(err, fs.ErrExist) {
		return built{}, fmt.Errorf("keeping %s: %w", source.pkg, err)
	}
	return built{path: filepath.Join(final, filepath.Base(source.pkg)), key: key}, nil
}
