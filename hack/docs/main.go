// Command docs writes the generated parts of the documentation: the fields of every kind, from the CRDs, the flags of
// the manager, from the manager itself, the reasons of machines, from the table for troubleshooting, what becomes of a
// pivot that goes wrong and the phases of a host, from the tables that decide them, and the commands of the
// installation, which the runbook repeats. Its tests demand that these parts are current, and that what people wrote
// around them agrees with the code: reasons, metrics, examples, commands and links.
//
// A generated part stands between two comments in a Markdown file; everything outside them is left alone. The program
// refuses a part whose name it does not know. It documents the stored version only: users of the older one are led to
// it by a warning.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	parts, err := generatedParts(root)
	if err != nil {
		return err
	}
	files, err := documents(root)
	if err != nil {
		return err
	}
	for _, name := range files {
		path := filepath.Join(root, name)
		before, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a document: %w", err)
		}
		after, err := fillIn(string(before), parts)
		if err != nil {
			return fmt.Errorf("filling in %s: %w", name, err)
		}
		if after == string(before) {
			continue
		}
		if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
			return fmt.Errorf("writing a document: %w", err)
		}
		fmt.Println(name)
	}
	return nil
}
