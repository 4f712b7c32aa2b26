package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// valuesFile is what users change.
const valuesFile = "config/ironic/values/values.env"

// values of the file that have a counterpart in spec.ironic and are needed everywhere.
type values struct {
	address, network, device, clusterID string
	routerID                            int32
}

// check reads the file, lets the renderer judge it and prints what belongs into a Metal3Cluster.
func check(root string, output io.Writer) error {
	read, err := readValues(filepath.Join(root, valuesFile))
	if err != nil {
		return err
	}
	described := describe(read)
	certificates, err := throwaway(read.address)
	if err != nil {
		return err
	}
	if _, err := renderFor(described, certificates); err != nil {
		return fmt.Errorf("checking %s: %w", valuesFile, err)
	}
	text, err := yaml.Marshal(map[string]any{"ironic": described})
	if err != nil {
		return err
	}
	fmt.Fprintf(output, "# What the Metal3Cluster has to say in its spec, so that both sides are one group.\n%s", text)
	return nil
}

// describe says the same as an API object does.
func describe(from values) infrav1.Ironic {
	return infrav1.Ironic{
		ClusterID: from.clusterID,
		Endpoint: infrav1.IronicEndpoint{
			VirtualIPs: []string{from.address}, CIDRs: []string{from.network}, Interface: from.device,
		},
		VRRP: infrav1.VRRP{VirtualRouterID: from.routerID},
	}
}

func readValues(path string) (values, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return values{}, fmt.Errorf("reading values: %w", err)
	}
	found := map[string]string{}
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		name, value, _ := strings.Cut(line, "=")
		if line != "" && !strings.HasPrefix(line, "#") {
			found[name] = value
		}
	}
	text := found["VIRTUAL_ROUTER_ID"]
	routerID, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return values{}, fmt.Errorf("reading values: VIRTUAL_ROUTER_ID is %q; use a number from 3 to 255", text)
	}
	return values{
		address: found["PROVISIONING_IP"], network: found["PROVISIONING_CIDR"], device: found["PROVISIONING_INTERFACE"],
		clusterID: found["CLUSTER_ID"], routerID: int32(routerID),
	}, nil
}
