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

// buildLimit is how long compiling one program may take.
const buildLimit = 10 * time.Minute

// entrySources are all the files of the entry points, which import nothing but the standard library: together with the
// version of Go they are all that decides what is built.
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

// isSource says whether a file is part of a program, and not of its tests.
func isSource(name string) bool {
	return !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "/testdata/")
}

// hash is short enough for a tag and changes with any of the parts.
func hash(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintln(sum, len(part))
		_, _ = io.WriteString(sum, part)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// source is a program of a checkout and how it is built.
type source struct {
	checkout, pkg string
	flags         []string
}

func entryProgram(checkout string) source {
	return source{checkout: checkout, pkg: "./test/lab/endpoint/cmd/entry"}
}

// guardSource is built like the image of a release, so that a lab measures what is released.
func guardSource(checkout string) source {
	return source{
		checkout: checkout, pkg: "./cmd/guard",
		flags: []string{"-tags=nethttpomithttp2,netgo,osusergo"},
	}
}

// built is a program that was built and the key of its content.
type built struct{ path, key string }

// build compiles a program, without any library of the machine, into the folder of the cache that its content names: a
// program that is being packed is never changed by another build.
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
	// Only an empty folder is replaced by a renamed one: what is there already is the same.
	if err := os.Rename(scratch, final); err != nil && !errors.Is(err, fs.ErrExist) {
		return built{}, fmt.Errorf("keeping %s: %w", source.pkg, err)
	}
	return built{path: filepath.Join(final, filepath.Base(source.pkg)), key: key}, nil
}
