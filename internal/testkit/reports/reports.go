// Package reports is how tests tell hack/tests what go test does not see: the specs of a suite, and the number of API
// servers. They write files into a folder that an environment variable names.
package reports

import (
	"fmt"
	"os"
	"path/filepath"
)

// Variable is the environment variable that names the folder. Nothing is written without it.
const Variable = "TEST_REPORTS"

// Endings of the files.
const (
	// Specs ends the files with the specs of a suite, in Ginkgo's JSON.
	Specs = ".specs.json"

	// APIServer ends the files that stand for one API server each. They are empty.
	APIServer = ".apiserver"
)

// File returns the path of a new file for what the name tells, or an empty string if no report was asked for.
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
