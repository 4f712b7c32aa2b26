package entry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
)

const (
	ironicProgram = "/usr/bin/ironic"
	schemaProgram = "/usr/bin/ironic-dbsync"
	httpdProgram  = "/usr/sbin/apache2"
)

// Main runs the program with a name. It returns when the program has ended or failed. It does not return if the process
// executes another program.
func Main(ctx context.Context, name string, getenv func(string) string) error {
	switch path.Base(name) {
	case path.Base(RunIronic):
		return runIronic(ctx, getenv)
	case path.Base(RunHTTPD):
		return runHTTPD(getenv)
	case path.Base(RunLogWatch):
		return watchLogs(ctx, sharedFolder+"/log/ironic/deploy", os.Stdout)
	case path.Base(GetResource):
		return download(ctx, getenv, os.Stdout)
	default:
		return fmt.Errorf("unknown entry point %s", name)
	}
}

// runIronic executes Ironic, with an empty database unless IRONIC_SKIP_DBSYNC is true.
func runIronic(ctx context.Context, getenv func(string) string) error {
	if err := prepare(getenv, ironicConfigFile, RenderIronic); err != nil {
		return fmt.Errorf("configuring Ironic: %w", err)
	}
	if strings.EqualFold(getenv("IRONIC_SKIP_DBSYNC"), "true") {
		return become(ironicProgram, "--config-file", ironicConfigFile)
	}
	// A restarted container has a new layer. A restarted process has not.
	if err := os.Remove(databaseFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("emptying the database: %w", err)
	}
	schema := exec.CommandContext(ctx, schemaProgram, "--config-file", ironicConfigFile, "create_schema")
	schema.Stdout, schema.Stderr = os.Stdout, os.Stderr
	if err := schema.Run(); err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	return become(ironicProgram, "--config-file", ironicConfigFile)
}

// runHTTPD writes the file that the kubelet requests, and executes the web server.
func runHTTPD(getenv func(string) string) error {
	if err := prepare(getenv, httpdConfigFile, RenderHTTPD); err != nil {
		return fmt.Errorf("configuring the web server: %w", err)
	}
	if err := os.WriteFile(sharedFolder+"/html/inspector.ipxe", []byte("#!ipxe\n"), 0o644); err != nil {
		return fmt.Errorf("writing the script of the inspection: %w", err)
	}
	return become(httpdProgram, "-f", httpdConfigFile, "-D", "FOREGROUND")
}

// prepare creates the folders of both programs, and writes a configuration file.
func prepare(getenv func(string) string, target string, render func(Settings) ([]byte, error)) error {
	settings, err := ReadSettings(getenv, func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	})
	if err != nil {
		return err
	}
	content, err := render(settings)
	if err != nil {
		return err
	}
	for _, folder := range []string{
		dataFolder, sharedFolder + "/html/images", sharedFolder + "/log/ironic/deploy", sharedFolder + "/tmp",
	} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(target, content, 0o600)
}

// become replaces this process by a program.
func become(program string, arguments ...string) error {
	err := syscall.Exec(program, append([]string{program}, arguments...), os.Environ())
	return fmt.Errorf("starting %s: %w", program, err)
}
