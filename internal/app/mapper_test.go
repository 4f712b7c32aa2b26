package app

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// counting counts the searches.
type counting struct {
	meta.RESTMapper
	searches int
}

func (c *counting) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	c.searches++
	return c.RESTMapper.RESTMapping(kind, versions...)
}

func TestMapperRemembersTheResourceOfAVersion(t *testing.T) {
	served := meta.NewDefaultRESTMapper([]schema.GroupVersion{infrav1.GroupVersion})
	search := &counting{RESTMapper: served}
	tested := &mapper{RESTMapper: search}
	kind := infrav1.GroupVersion.WithKind("Metal3Machine")
	version := kind.Version

	if _, err := tested.RESTMapping(kind.GroupKind(), version); !meta.IsNoMatchError(err) {
		t.Fatalf("a kind that is not served: got %v, want no match", err)
	}
	served.Add(kind, meta.RESTScopeNamespace)
	for range 3 {
		mapping, err := tested.RESTMapping(kind.GroupKind(), version)
		if err != nil || mapping.Resource.Resource != "metal3machines" {
			t.Fatalf("got %+v, %v, want metal3machines: a failed search must not be remembered", mapping, err)
		}
	}
	if search.searches != 2 {
		t.Errorf("%d searches for a version, want the failed and the first one", search.searches)
	}
	for range 2 {
		if _, err := tested.RESTMapping(kind.GroupKind()); err != nil {
			t.Fatal(err)
		}
	}
	if search.searches != 4 {
		t.Errorf("%d searches, want one for each question about the preferred version", search.searches)
	}
}
