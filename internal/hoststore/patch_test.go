package hoststore_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// versions are the changes of a host by which the versions of the test differ.
func versions() map[string]func(*bmov1alpha1.BareMetalHost) {
	everything := func(h *bmov1alpha1.BareMetalHost) {
		h.Labels, h.Annotations = map[string]string{"a": "b", "c": ""}, map[string]string{"d": "e", "f": "<&>"}
		h.Finalizers = []string{"a", "b"}
		h.OwnerReferences = []metav1.OwnerReference{{Kind: "Metal3Machine", Name: "a"}}
		h.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Name: "a"}
		h.Spec.Image, h.Spec.UserData = &bmov1alpha1.Image{URL: "u"}, &corev1.SecretReference{Name: "u"}
		h.Spec.Online, h.Spec.Taints = true, []corev1.Taint{{Key: "k"}}
	}
	return map[string]func(*bmov1alpha1.BareMetalHost){
		"Plain":      func(*bmov1alpha1.BareMetalHost) {},
		"Everything": everything,
		"Empty": func(h *bmov1alpha1.BareMetalHost) {
			h.Labels, h.Annotations = map[string]string{}, map[string]string{}
			h.Finalizers, h.OwnerReferences = []string{}, []metav1.OwnerReference{}
			h.Spec.Taints = []corev1.Taint{}
		},
		"Keys": func(h *bmov1alpha1.BareMetalHost) {
			everything(h)
			h.Labels, h.Annotations = map[string]string{"a": "", "x": "y"}, map[string]string{"f": "<&>"}
		},
		"Lists": func(h *bmov1alpha1.BareMetalHost) {
			everything(h)
			h.Finalizers, h.OwnerReferences, h.Spec.Taints = []string{"b"}, nil, nil
		},
		"Spec": func(h *bmov1alpha1.BareMetalHost) {
			everything(h)
			h.Spec.ConsumerRef, h.Spec.Image, h.Spec.UserData = nil, &bmov1alpha1.Image{}, &corev1.SecretReference{}
		},
		"Status": func(h *bmov1alpha1.BareMetalHost) { h.Status.PoweredOn = true },
	}
}

// TestWriteEqualsAPatchOfWholeHosts writes each version of a host over each other one. The patch must have the effect
// of a patch of the whole host without its status, and contain the resource version.
func TestWriteEqualsAPatchOfWholeHosts(t *testing.T) {
	version := func(change func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		h := available("host-0")
		h.ResourceVersion, h.Generation, h.UID = "7", 3, "uid"
		change(h)
		return h
	}
	for from, toCurrent := range versions() {
		for to, toDesired := range versions() {
			current, desired := version(toCurrent), version(toDesired)
			patch, stored := patchOf(t, current, desired)
			whole := desired.DeepCopy()
			whole.Status = current.Status
			if equality.Semantic.DeepEqual(current, whole) {
				if patch != "" || stored != current {
					t.Errorf("%s to %s: got the patch %s without a change", from, to, patch)
				}
				continue
			}
			data, err := client.MergeFrom(current).Data(whole)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(applied(t, current, string(data)), applied(t, current, patch)); diff != "" {
				t.Errorf("%s to %s: -whole +got:\n%s", from, to, diff)
			}
			if !strings.Contains(patch, `"resourceVersion":"7"`) || stored.ManagedFields != nil {
				t.Errorf("%s to %s: got %s and managedFields %v", from, to, patch, stored.ManagedFields)
			}
			if !equality.Semantic.DeepEqual(stored.Spec, desired.Spec) || stored.ResourceVersion != "8" {
				t.Errorf("%s to %s: got %+v, version %s", from, to, stored.Spec, stored.ResourceVersion)
			}
		}
	}
}

// patchOf returns the patch that Write sends, and the host that it returns. The server answers with managedFields.
func patchOf(t *testing.T, current, desired *bmov1alpha1.BareMetalHost,
) (sent string, stored *bmov1alpha1.BareMetalHost) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(build.SharedScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, patch client.Patch,
			_ ...client.PatchOption,
		) error {
			data, err := patch.Data(object)
			sent = string(data)
			object.SetResourceVersion("8")
			object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x"}})
			return err
		},
	}).Build()
	stored, err := hoststore.New(c, c).Write(t.Context(), current, desired)
	if err != nil {
		t.Fatal(err)
	}
	return sent, stored
}

// applied returns a host with a merge patch applied.
func applied(t *testing.T, h *bmov1alpha1.BareMetalHost, patch string) *bmov1alpha1.BareMetalHost {
	t.Helper()
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = jsonpatch.MergePatch(data, []byte(patch)); err != nil {
		t.Fatal(err)
	}
	result := &bmov1alpha1.BareMetalHost{}
	if err := json.Unmarshal(data, result); err != nil {
		t.Fatal(err)
	}
	return result
}
