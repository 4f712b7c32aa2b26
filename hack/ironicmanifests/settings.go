package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// settings prints a patch of the Deployment for the settings of Ironic in a Metal3Cluster. The management side then
// runs Ironic as the nodes do. Addresses and names of interfaces are those of the values: both sides may have different
// ones.
func settings(root string, arguments []string, output io.Writer) error {
	flags := flag.NewFlagSet("settings", flag.ContinueOnError)
	file := flags.String("from", "", "file with the Metal3Cluster, such as the output of clusterctl generate cluster")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *file == "" {
		return errors.New("--from is required: name the file with the Metal3Cluster")
	}
	wanted, err := ironicIn(*file)
	if err != nil {
		return err
	}
	read, err := readValues(root)
	if err != nil {
		return err
	}
	before, err := podFor(read, flags.Args(), func(*infrav1.Ironic) {})
	if err != nil {
		return err
	}
	after, err := podFor(read, flags.Args(), func(described *infrav1.Ironic) { takeSettings(described, wanted) })
	if err != nil {
		return err
	}
	change, err := patchOf(before, after)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": deploymentName, "namespace": namespace},
		"spec":     map[string]any{"template": map[string]any{"spec": change}},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(output, "# The settings of Ironic in %s. Print them again after a change.\n%s", *file, text)
	return nil
}

// ironicIn returns spec.ironic of the only Metal3Cluster in a file.
func ironicIn(file string) (infrav1.Ironic, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return infrav1.Ironic{}, err
	}
	var found []infrav1.Metal3Cluster
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return infrav1.Ironic{}, fmt.Errorf("reading %s: %w", file, err)
		}
		var cluster infrav1.Metal3Cluster
		if yaml.Unmarshal(document, &cluster) != nil || cluster.Kind != "Metal3Cluster" {
			// Objects of other kinds have other fields.
			continue
		}
		if err := yaml.UnmarshalStrict(document, &cluster); err != nil {
			return infrav1.Ironic{}, fmt.Errorf("reading the Metal3Cluster in %s: %w", file, err)
		}
		found = append(found, cluster)
	}
	if len(found) != 1 || found[0].Spec.Ironic == nil {
		return infrav1.Ironic{}, fmt.Errorf("%s has %d objects of kind Metal3Cluster; name a file with one that has "+
			"spec.ironic, in version %s", file, len(found), infrav1.GroupVersion.Version)
	}
	return *found[0].Spec.Ironic, nil
}

// takeSettings sets the settings that do not depend on the side. Values and components have the other ones.
func takeSettings(described *infrav1.Ironic, wanted infrav1.Ironic) {
	described.ExtraConfig = wanted.ExtraConfig
	described.Proxy = wanted.Proxy
	described.Inspection = wanted.Inspection
	described.PrometheusExporter = wanted.PrometheusExporter
	described.Overrides = wanted.Overrides
	described.Ramdisk = wanted.Ramdisk
	described.TLS.DisableVirtualMediaTLS = wanted.TLS.DisableVirtualMediaTLS
	described.Endpoint.ExternalIP = wanted.Endpoint.ExternalIP
	described.Endpoint.ExternalCallbackURL = wanted.Endpoint.ExternalCallbackURL
	described.Endpoint.ImageServerExternalURL = wanted.Endpoint.ImageServerExternalURL
	if described.DHCP == nil || wanted.DHCP == nil {
		return
	}
	both := *wanted.DHCP
	both.RangeBegin, both.RangeEnd = described.DHCP.RangeBegin, described.DHCP.RangeEnd
	both.Gateway, both.DNS = described.DHCP.Gateway, described.DHCP.DNS
	described.DHCP = &both
}

// podFor returns the pod of an overlay with the values and components, and with changed settings.
func podFor(read values, components []string, change func(*infrav1.Ironic)) (corev1.PodSpec, error) {
	described, err := describe(read, components...)
	if err != nil {
		return corev1.PodSpec{}, err
	}
	for _, one := range authorities {
		if slices.Contains(components, one.component) {
			one.set(&described, "certificates")
		}
	}
	change(&described)
	made, err := renderFor(described)
	if err != nil {
		return corev1.PodSpec{}, err
	}
	pod := made.deployment.Spec.Template.Spec
	if index := indexOf(pod.Containers, "dnsmasq"); index >= 0 {
		pod.Containers[index], err = made.withOptions(pod.Containers[index])
	}
	return pod, err
}

// patchOf returns the strategic merge patch from one pod to another.
func patchOf(before, after corev1.PodSpec) (map[string]any, error) {
	patch := map[string]any{}
	for name, containers := range map[string][2][]corev1.Container{
		"initContainers": {before.InitContainers, after.InitContainers},
		"containers":     {before.Containers, after.Containers},
	} {
		changed, err := patchesOf(containers[0], containers[1])
		if err != nil {
			return nil, err
		}
		if len(changed) > 0 {
			patch[name] = changed
		}
	}
	rest := after.DeepCopy()
	rest.InitContainers, rest.Containers = before.InitContainers, before.Containers
	if !equality.Semantic.DeepEqual(before, *rest) {
		return nil, errors.New("the renderer changes more than containers: write the patch by hand")
	}
	return patch, nil
}

func patchesOf(before, after []corev1.Container) ([]any, error) {
	var patches []any
	for _, container := range before {
		if indexOf(after, container.Name) < 0 {
			patches = append(patches, map[string]any{"name": container.Name, "$patch": "delete"})
		}
	}
	for _, container := range after {
		index := indexOf(before, container.Name)
		if index < 0 {
			whole, err := plain(container)
			if err != nil {
				return nil, err
			}
			patches = append(patches, whole)
			continue
		}
		changed, err := containerPatch(before[index], container)
		if err != nil {
			return nil, err
		}
		if len(changed) > 1 {
			patches = append(patches, changed)
		}
	}
	return patches, nil
}

// containerPatch returns the name of a container, and what differs.
func containerPatch(before, after corev1.Container) (map[string]any, error) {
	patch := map[string]any{"name": after.Name}
	var variables []corev1.EnvVar
	for _, variable := range after.Env {
		if !slices.ContainsFunc(before.Env, func(v corev1.EnvVar) bool { return equality.Semantic.DeepEqual(v, variable) }) {
			variables = append(variables, variable)
		}
	}
	if len(variables) > 0 {
		patch["env"] = variables
	}
	if !slices.Equal(before.Command, after.Command) {
		patch["command"] = after.Command
	}
	if !equality.Semantic.DeepEqual(before.Resources, after.Resources) {
		patch["resources"] = after.Resources
	}
	rest := after.DeepCopy()
	rest.Env, rest.Command, rest.Resources = before.Env, before.Command, before.Resources
	if !equality.Semantic.DeepEqual(before, *rest) {
		return nil, fmt.Errorf("the renderer changes more of container %s than variables, command and resources: write the "+
			"patch by hand", after.Name)
	}
	return patch, nil
}
