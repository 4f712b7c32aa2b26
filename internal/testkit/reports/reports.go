// Package reports writes data for hack/tests that the output of go test lacks: the specs of a suite, and the number of
// API servers. It writes files into a folder that an environment variable names.
package reports

import (
	"fmt"
	"os"
	"path/filepath"
)

// Variable is the environment variable that names the folder. Nothing is written without it.
const Variable = "TEST_REPORTS"

// File extensions.
const (
	// Specs is the extension of files with the specs of a suite, in Ginkgo's JSON.
	Specs = ".specs.json"

	// APIServer is the extension of empty files, one for each API server.
	APIServer = ".apiserver"
)

// File returns the path of a new file for a name, or an empty string if no report was requested.
func File(name, ending string) (string, error) {
	folder := os.Getenv(Variable)
	if folder == "" {
		return "", nil
	}
	file, err := os.CreateTemp(folder, fmt.Sprintf("%s-*%s", filepath.Base(name), ending))
	if err != nil {
		return "", fmt.Errorf("making a report: %w", err)
	}
	return file.Name(), file.Close()
}
