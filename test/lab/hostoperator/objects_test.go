package hostoperator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/ironicapi"
)

// find returns the only object of a type.
func find[Object client.Object](t *testing.T, objects []client.Object) Object {
	t.Helper()
	var all []Object
	for _, object := range objects {
		if found, is := object.(Object); is {
			all = append(all, found)
		}
	}
	if len(all) != 1 {
		t.Fatalf("%d objects of the type %T", len(all), *new(Object))
	}
	return all[0]
}

// The pod has to find in its volume what the Secret holds: laid out as the kubelet does, it is read back.
func TestObjectsTellTheProgramWhereIronicIs(t *testing.T) {
	want := ironicapi.Settings{
		Endpoint: "https://172.22.0.10:6385/v1/", Username: "admin", Password: "secret", CA: []byte("certificate"),
	}
	objects := hostoperator.Objects("lab.invalid/host-operator:dev", want)
	pod := find[*appsv1.Deployment](t, objects).Spec.Template.Spec
	secret := find[*corev1.Secret](t, objects)
	volume := pod.Volumes[0].Secret
	if volume.SecretName != secret.Name {
		t.Fatalf("the volume holds the Secret %s, but there is only %s", volume.SecretName, secret.Name)
	}
	folder := t.TempDir()
	for _, item := range volume.Items {
		file := filepath.Join(folder, item.Path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, secret.Data[item.Key], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	container := pod.Containers[0]
	getenv := func(name string) string {
		for _, variable := range container.Env {
			if variable.Name == name {
				return strings.Replace(variable.Value, container.VolumeMounts[0].MountPath, folder, 1)
			}
		}
		return ""
	}
	got, err := ironicapi.SettingsFrom(getenv)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestObjectsAreModest(t *testing.T) {
	objects := hostoperator.Objects("lab.invalid/host-operator:dev", ironicapi.Settings{})
	pod := find[*appsv1.Deployment](t, objects).Spec.Template.Spec
	if pod.HostNetwork || !*pod.SecurityContext.RunAsNonRoot {
		t.Error("the pod has rights on its node")
	}
	container := pod.Containers[0]
	if container.Image != "lab.invalid/host-operator:dev" || container.ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("image %s, %s", container.Image, container.ImagePullPolicy)
	}
	for _, object := range objects {
		if object.GetObjectKind().GroupVersionKind().Empty() {
			t.Errorf("%T does not say what it is, so it cannot be applied from a file", object)
		}
	}
}
