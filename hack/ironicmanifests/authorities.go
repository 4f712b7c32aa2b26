package main

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// authority is a component that adds a CA bundle, from a ConfigMap of the user.
type authority struct {
	component, configMap string
	// file is the name of the bundle below the node directory. Its last part is the key in the ConfigMap.
	file string
	// set sets the same bundle in a Metal3Cluster.
	set func(ironic *infrav1.Ironic, bundle string)
}

var authorities = []authority{
	{"bmc-ca", "ironic-bmc-ca", ironic.BMCAuthoritiesFile, func(described *infrav1.Ironic, bundle string) {
		described.TLS.BMCCABundle = bundle
	}},
	{"trusted-ca", "ironic-trusted-ca", ironic.TrustedAuthoritiesFile, func(described *infrav1.Ironic, bundle string) {
		described.TLS.TrustedCABundle = bundle
	}},
}

// patch returns the patch of the base Deployment for the bundle. It returns an error if the bundle changes more than
// commands, variables and mounts.
func (a authority) patch() ([]operation, error) {
	before, err := a.pod("")
	if err != nil {
		return nil, err
	}
	after, err := a.pod("certificates")
	if err != nil {
		return nil, err
	}
	bundle := corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: a.configMap},
		Items:                []corev1.KeyToPath{{Key: ironic.SecretKey(a.file), Path: a.file}},
	}}
	patch := []operation{appendTo("volumes/0/projected/sources", bundle)}
	for _, list := range []struct {
		name          string
		before, after []corev1.Container
	}{
		{"initContainers", before.InitContainers, after.InitContainers},
		{"containers", before.Containers, after.Containers},
	} {
		if len(list.before) != len(list.after) {
			return nil, fmt.Errorf("component %s: the renderer adds %s, which no patch does", a.component, list.name)
		}
		for i := range list.before {
			patch = append(patch, added(list.name+"/"+strconv.Itoa(i), list.before[i], list.after[i])...)
		}
	}
	return patch, nil
}

// pod returns the pod of the base with a bundle, and without one for an empty name.
func (a authority) pod(bundle string) (corev1.PodSpec, error) {
	described, err := describe(placeholders(), "dhcp")
	if err != nil {
		return corev1.PodSpec{}, err
	}
	a.set(&described, bundle)
	made, err := renderFor(described)
	if err != nil {
		return corev1.PodSpec{}, err
	}
	pod := made.deployment.Spec.Template.Spec
	for _, name := range []string{"guard", "dnsmasq"} {
		if _, err := take(&pod, name); err != nil {
			return corev1.PodSpec{}, err
		}
	}
	return pod, nil
}

// added returns the additional arguments, variables and mounts of a container.
func added(at string, before, after corev1.Container) []operation {
	patch := additional(at+"/command", before.Command, after.Command, func(a, b string) bool { return a == b })
	patch = append(patch, additional(at+"/env", before.Env, after.Env, func(a, b corev1.EnvVar) bool {
		return a.Name == b.Name
	})...)
	return append(patch, additional(at+"/volumeMounts", before.VolumeMounts, after.VolumeMounts,
		func(a, b corev1.VolumeMount) bool { return a.MountPath == b.MountPath })...)
}

// additional returns the operations that add values to a list, or create the list.
func additional[T any](list string, before, after []T, same func(a, b T) bool) []operation {
	isNew := func(value T) bool {
		return !slices.ContainsFunc(before, func(other T) bool { return same(other, value) })
	}
	var patch []operation
	for i, value := range after {
		switch {
		case !isNew(value):
		case len(before) == 0 && len(patch) == 0:
			patch = append(patch, operation{Op: "add", Path: "/spec/template/spec/" + list, Value: []T{value}})
		case slices.IndexFunc(after[i:], func(v T) bool { return !isNew(v) }) < 0:
			patch = append(patch, appendTo(list, value))
		default:
			patch = append(patch, operation{Op: "add", Path: fmt.Sprintf("/spec/template/spec/%s/%d", list, i), Value: value})
		}
	}
	return patch
}
