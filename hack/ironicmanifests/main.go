// Command ironicmanifests writes the rendered part of config/ironic: the Deployment of the management side, as a base
// and components of kustomize, and the replacements for the values of config/ironic/values/values.env.
//
// Without a command it writes these files. Users run three commands:
//
//	check COMPONENT...                validate config/ironic/values for the components of an overlay, and print the
//	                                  matching spec.ironic
//	settings --from=FILE COMPONENT... print a patch of the Deployment for the settings of Ironic in a Metal3Cluster
//	credentials --namespace=NAME... [--username=NAME]
//	                                  print a Secret with a new password for each namespace
//
// The output is rendered with placeholders, so it does not depend on values.env. The program returns an error if the
// renderer writes a value that no replacement of kustomize can change. DHCP uses options of dnsmasq instead of the file
// of nodes, because kustomize cannot edit such a file. Components that only change values are written by hand. The
// tests of test/manifests compare the manifests with the output of the renderer.
package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "ironicmanifests:", err)
		os.Exit(1)
	}
}

func run(arguments []string, output io.Writer) error {
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	if len(arguments) == 0 {
		return generate(root, output)
	}
	switch arguments[0] {
	case "check":
		return check(root, arguments[1:], output)
	case "settings":
		return settings(root, arguments[1:], output)
	case "credentials":
		return credentials(arguments[1:], rand.Reader, output)
	default:
		return fmt.Errorf("%q is not a command: use check, settings, credentials, or none", arguments[0])
	}
}

// generate writes every generated file that changed, and prints its name.
func generate(root string, output io.Writer) error {
	files, err := generated()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(root, name)
		before, err := os.ReadFile(path)
		if err == nil && bytes.Equal(before, files[name]) {
			continue
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return fmt.Errorf("writing a generated file: %w", err)
		}
		fmt.Fprintln(output, name)
	}
	return nil
}

// generated returns the content of all generated files by their paths in the checkout.
func generated() (map[string][]byte, error) {
	made, err := render()
	if err != nil {
		return nil, err
	}
	other, err := render(ipv6Next)
	if err != nil {
		return nil, err
	}
	return made.files(other)
}
