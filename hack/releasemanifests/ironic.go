package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// ironicFile is Ironic with keepalived and its guard, for a management cluster.
	ironicFile = "ironic.yaml"

	// ironicEndpointFile configures the Ironic endpoint of BMO of a target cluster.
	ironicEndpointFile = "ironic-endpoint.yaml"

	// defaultGuard is the image in config/ironic, without its tag, and the default of the manager for nodes.
	defaultGuard = "ghcr.io/metal3-pivot/keepalived-guard"
)

// parameter is a value of config/ironic/values/values.env that is a variable of clusterctl in a release. The variables
// have the names of the flavour ironic, so that both sides of a pivot get the same values.
type parameter struct {
	// value is the name in values.env.
	value string

	// built is the value for kustomize. Numbers must be numbers: kustomize keeps the types of JSON.
	built string

	// released are the replacements of built in the release: old and new texts, in this order.
	released []string
}

// parameters are the parameters of the manifests of a release.
func parameters() []parameter {
	return []parameter{
		{"PROVISIONING_IP", "${IRONIC_ADDRESS}", nil},
		{"PROVISIONING_INTERFACE", "${IRONIC_INTERFACE:=provisioning}", nil},
		{"CLUSTER_ID", "${IRONIC_CLUSTER_ID:=metal3}", nil},
		{"PROVISIONING_CIDR", "network/900001", []string{"network/900001", "${IRONIC_CIDR}", "900001", "${IRONIC_CIDR#*/}"}},
		{"VIRTUAL_ROUTER_ID", "900002", []string{"900002", "${IRONIC_VRID:=193}"}},
	}
}

// addIronic builds the manifests of Ironic.
func (r release) addIronic(ctx context.Context, files map[string][]byte) error {
	copied, err := os.MkdirTemp("", "release-ironic-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(copied) }()
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(r.root, "config", "ironic"))); err != nil {
		return fmt.Errorf("copying config/ironic: %w", err)
	}
	if err := os.WriteFile(filepath.Join(copied, "values", "values.env"), builtValues(), 0o600); err != nil {
		return err
	}
	for name, folder := range map[string]string{ironicFile: "ironic-keepalived", ironicEndpointFile: "endpoint"} {
		built, err := r.kustomize(ctx, filepath.Join(copied, folder))
		if err != nil {
			return err
		}
		files[name] = bytes.ReplaceAll(releasedValues(built), []byte(defaultGuard+":"+developmentTag), []byte(r.guard))
	}
	if !bytes.Contains(files[ironicFile], []byte("image: "+r.guard+"\n")) {
		return fmt.Errorf("config/ironic does not name the image %s:%s", defaultGuard, developmentTag)
	}
	return nil
}

// builtValues returns the file of values for kustomize.
func builtValues() []byte {
	var text strings.Builder
	for _, each := range parameters() {
		fmt.Fprintf(&text, "%s=%s\n", each.value, each.built)
	}
	return []byte(text.String())
}

// releasedValues replaces the values of kustomize with variables.
func releasedValues(built []byte) []byte {
	var pairs []string
	for _, each := range parameters() {
		pairs = append(pairs, each.released...)
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(built)))
}
