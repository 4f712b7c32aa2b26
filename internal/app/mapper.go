package app

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// mapper remembers the resource of a kind in one version, which never changes. The mapper of controller-runtime
// searches all resources for each answer, and the client asks it before each write.
type mapper struct {
	meta.RESTMapper
	mappings sync.Map // *meta.RESTMapping by schema.GroupVersionKind
}

func newMapper(config *rest.Config, connection *http.Client) (meta.RESTMapper, error) {
	dynamic, err := apiutil.NewDynamicRESTMapper(config, connection)
	if err != nil {
		return nil, err
	}
	return &mapper{RESTMapper: dynamic}, nil
}

// RESTMapping implements meta.RESTMapper.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 {
		// The API server may begin to prefer another version.
		return m.RESTMapper.RESTMapping(kind, versions...)
	}
	key := kind.WithVersion(versions[0])
	if known, found := m.mappings.Load(key); found {
		if mapping, is := known.(*meta.RESTMapping); is {
			return mapping, nil
		}
	}
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		m.mappings.Store(key, mapping)
	}
	return mapping, err
}
