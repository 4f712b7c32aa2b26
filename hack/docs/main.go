// Command docs writes the generated parts of the documents: the fields of every kind from the CRDs, the flags from the
// manager, the failures of a pivot and the phases of a host from the decision tables, and the commands of the
// installation for the runbook. Its tests require that these parts are current, and that the written text agrees with
// the code: reasons, metrics, examples, commands and links.
//
// A generated part is between two comments in a Markdown file. The program does not change text outside of them, and
// returns an error for an unknown part. It documents the stored version only: a warning leads users of the older
// version to it.
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
