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

// Main is the program that a name stands for. It returns when that ended or could not begin; a program that becomes
// another one does not return.
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
		return fmt.Errorf("there is no entry point %s", name)
	}
}

// runIronic becomes Ironic, with an empty database unless IRONIC_SKIP_DBSYNC is true.
func runIronic(ctx context.Context, getenv func(string) string) error {
	if err := prepare(getenv, ironicConfigFile, RenderIronic); err != nil {
		return fmt.Errorf("configuring Ironic: %w", err)
	}
	if strings.EqualFold(getenv("IRONIC_SKIP_DBSYNC"), "true") {
		return become(ironicProgram, "--config-file", ironicConfigFile)
	}
	// A container that is started again has a new layer. One whose process is, has not.
	if err := os.Remove(databaseFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("emptying the database: %w", err)
	}
	schema := exec.CommandContext(ctx, schemaProgram, "--config-file", ironicConfigFile, "create_schema")
	schema.Stdout, schema.Stderr = os.Stdout, os.Stderr
	if err := schema.Run(); err != nil {
		return fmt.Errorf("making the database: %w", err)
	}
	return become(ironicProgram, "--config-file", ironicConfigFile)
}

// runHTTPD becomes the web server.
func runHTTPD(getenv func(string) string) error {
	if err := prepare(getenv, httpdConfigFile, RenderHTTPD); err != nil {
		return fmt.Errorf("configuring the web server: %w", err)
	}
	return become(httpdProgram, "-f", httpdConfigFile, "-D", "FOREGROUND")
}

// prepare makes the folders that both need, and writes a file of configuration.
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

// become replaces this process.
func become(program string, arguments ...string) error {
	err := syscall.Exec(program, append([]string{program}, arguments...), os.Environ())
	return fmt.Errorf("starting %s: %w", program, err)
}
