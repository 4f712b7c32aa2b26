package image

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// programsLimit is the time limit to build the own programs.
const programsLimit = 5 * time.Minute

// programSources are all files of the own programs, which import only the standard library. With the version of Go they
// define the built programs.
//
//go:embed pause/main.go podnetwork/main.go podnetwork/conflist.go
var programSources embed.FS

// ownPrograms builds the programs below this package and returns their folder.
func (w workshop) ownPrograms(ctx context.Context) (string, error) {
	sources, err := contentKey(programSources)
	if err != nil {
		return "", err
	}
	return w.ensure(ctx, step{
		name:  "lab-programs-" + key(sources, runtime.Version(), runtime.GOARCH),
		label: "building the small programs of the lab",
		limit: programsLimit,
		make: func(ctx context.Context, target string) error {
			if err := os.Mkdir(target, 0o755); err != nil {
				return err
			}
			for _, name := range []string{"pause", "podnetwork"} {
				command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w",
					"-o", filepath.Join(target, name), "./test/lab/image/"+name)
				command.Dir = w.checkout
				command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
				if output, err := command.CombinedOutput(); err != nil {
					return fmt.Errorf("building %s: %w\n%s", name, err, output)
				}
			}
			return nil
		},
	})
}
