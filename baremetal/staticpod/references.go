package staticpod

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Sources that require no API server. All others are references.
var (
	localVolumes   = []string{"hostPath", "emptyDir", "downwardAPI"}
	localVariables = []string{"fieldRef", "resourceFieldRef"}
)

// References returns the fields of a pod that refer to objects of an API server, such as "spec.volumes[0].secret".
//
// The priority class is omitted: the kubelet does not read it, and the API server requires it on the mirror pod.
func References(spec *corev1.PodSpec) []string {
	var found []string
	add := func(is bool, path string, values ...any) {
		if is {
			found = append(found, fmt.Sprintf("spec."+path, values...))
		}
	}
	add(spec.ServiceAccountName != "", "serviceAccountName")
	add(spec.DeprecatedServiceAccount != "", "serviceAccount")
	add(len(spec.ImagePullSecrets) > 0, "imagePullSecrets")
	add(len(spec.ResourceClaims) > 0, "resourceClaims")
	add(len(spec.EphemeralContainers) > 0, "ephemeralContainers")
	add(spec.RuntimeClassName != nil, "runtimeClassName")
	add(spec.SchedulingGroup != nil, "schedulingGroup")
	add(spec.Resources != nil && len(spec.Resources.Claims) > 0, "resources.claims")
	for i, volume := range spec.Volumes {
		for _, source := range referencesIn(volume.VolumeSource, localVolumes) {
			add(true, "volumes[%d].%s", i, source)
		}
	}
	for i := range spec.InitContainers {
		found = append(found, ofContainer(fmt.Sprintf("spec.initContainers[%d]", i), &spec.InitContainers[i])...)
	}
	for i := range spec.Containers {
		found = append(found, ofContainer(fmt.Sprintf("spec.containers[%d]", i), &spec.Containers[i])...)
	}
	return found
}

func ofContainer(path string, container *corev1.Container) []string {
	var found []string
	if len(container.EnvFrom) > 0 {
		found = append(found, path+".envFrom")
	}
	if len(container.Resources.Claims) > 0 {
		found = append(found, path+".resources.claims")
	}
	if len(container.VolumeDevices) > 0 {
		found = append(found, path+".volumeDevices")
	}
	for i, variable := range container.Env {
		if variable.ValueFrom == nil {
			continue
		}
		for _, source := range referencesIn(*variable.ValueFrom, localVariables) {
			found = append(found, fmt.Sprintf("%s.env[%d].valueFrom.%s", path, i, source))
		}
	}
	return found
}

// referencesIn returns the fields of a union that are set and not local. It uses reflection, so that it includes fields
// of later versions of Kubernetes.
func referencesIn(union any, local []string) []string {
	var found []string
	value := reflect.ValueOf(union)
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		if !value.Field(i).IsZero() && !slices.Contains(local, name) {
			found = append(found, name)
		}
	}
	return found
}
