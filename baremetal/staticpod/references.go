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
	freeVolumes   = []string{"hostPath", "emptyDir", "downwardAPI"}
	freeVariables = []string{"fieldRef", "resourceFieldRef"}
)

// References returns the fields of a pod that refer to objects of an API server, such as "spec.volumes[0].secret".
//
// The priority class is omitted: the kubelet does not read it, and the API server requires it on the mirror pod.
func References(spec *corev1.PodSpec) []string {
	var found []string
	note := func(is bool, path string, values ...any) {
		if is {
			found = append(found, fmt.Sprintf("spec."+path, values...))
		}
	}
	note(spec.ServiceAccountName != "", "serviceAccountName")
	note(spec.DeprecatedServiceAccount != "", "serviceAccount")
	note(len(spec.ImagePullSecrets) > 0, "imagePullSecrets")
	note(len(spec.ResourceClaims) > 0, "resourceClaims")
	note(len(spec.EphemeralContainers) > 0, "ephemeralContainers")
	note(spec.RuntimeClassName != nil, "runtimeClassName")
	note(spec.SchedulingGroup != nil, "schedulingGroup")
	note(spec.Resources != nil && len(spec.Resources.Claims) > 0, "resources.claims")
	for i, volume := range spec.Volumes {
		for _, source := range foreign(volume.VolumeSource, freeVolumes) {
			note(true, "volumes[%d].%s", i, source)
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
		for _, source := range foreign(*variable.ValueFrom, freeVariables) {
			found = append(found, fmt.Sprintf("%s.env[%d].valueFrom.%s", path, i, source))
		}
	}
	return found
}

// foreign returns the fields of a union that are set and not allowed. It uses reflection, so that it includes fields of
// later versions of Kubernetes.
func foreign(union any, free []string) []string {
	var found []string
	value := reflect.ValueOf(union)
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		if !value.Field(i).IsZero() && !slices.Contains(free, name) {
			found = append(found, name)
		}
	}
	return found
}
