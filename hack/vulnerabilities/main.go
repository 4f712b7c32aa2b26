// Command vulnerabilities searches for known vulnerabilities in the code that the programs of this provider call, with
// the govulncheck that hack/vuln pins.
//
// A finding is an error. An invalid database is an error too. If the network does not reach the database, the program
// prints that nothing was checked, and succeeds, because checks must also work without the database. With -required
// that is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

const (
	// publicDatabase is the database of the Go project.
	publicDatabase = "https://vuln.go.dev"

	// reachLimit is the time limit for the first response of the database.
	reachLimit = 20 * time.Second
)

// scan is one search.
type scan struct {
	// program is the path of govulncheck.
	program string

	// folder is the module to search.
	folder string

	// database is a URL with the scheme https, http or file.
	database string

	// required makes an unreachable database an error.
	required bool
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "vulnerabilities: FAILED:", err)
		os.Exit(1)
	}
}

func run() error {
	database := flag.String("db", publicDatabase, "URL of the database, with the scheme https, http or file")
	required := flag.Bool("required", false, "fail if the database is out of reach")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	folder, err := binaries.Ensure(ctx, root, programs(), os.Stderr)
	if err != nil {
		return err
	}
	return scan{
		program: filepath.Join(folder, "govulncheck"), folder: root, database: *database, required: *required,
	}.run(ctx, os.Stdout)
}

// programs is the set that hack/vuln pins.
func programs() binaries.Set {
	return binaries.Set{Name: "vuln", Programs: []binaries.Program{
		{Name: "govulncheck", Package: "golang.org/x/vuln/cmd/govulncheck"},
	}}
}

// run searches, and prints the findings.
func (s scan) run(ctx context.Context, output io.Writer) error {
	if err := s.reach(ctx); err != nil {
		if s.required {
			return fmt.Errorf("the database of vulnerabilities is out of reach: %w", err)
		}
		fmt.Fprintf(output, "\nvulnerabilities: SKIPPED: NOTHING WAS CHECKED: the database is out of reach: %v\n\n", err)
		return nil
	}
	command := exec.CommandContext(ctx, s.program, "-C", s.folder, "-db", s.database, "./...")
	command.Stdout, command.Stderr = output, output
	if err := command.Run(); err != nil {
		return fmt.Errorf("govulncheck found vulnerabilities, or failed: %w", err)
	}
	fmt.Fprintln(output, "vulnerabilities: none known")
	return nil
}

// reach returns an error if the database does not answer over the network. govulncheck reports errors of files.
func (s scan) reach(ctx context.Context) error {
	if strings.HasPrefix(s.database, "file:") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.database+"/index/db.json", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return errors.New(s.database + " answers " + response.Status)
	}
	return nil
}
