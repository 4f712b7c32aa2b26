package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// apiServer is an API server with no Nodes and no Namespaces. It records the connections of the requests for each.
type apiServer struct {
	mutex sync.Mutex
	from  map[string]map[string]bool
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	a.mutex.Lock()
	if a.from[resource] == nil {
		a.from[resource] = map[string]bool{}
	}
	a.from[resource][r.RemoteAddr] = true
	a.mutex.Unlock()
	var answer any
	switch {
	case r.URL.Query().Has("sendInitialEvents"):
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case r.URL.Query().Has("watch"):
		<-r.Context().Done()
		return
	case r.URL.Path == "/api":
		answer = metav1.APIVersions{Versions: []string{"v1"}}
	case r.URL.Path == "/apis":
		answer = metav1.APIGroupList{}
	case r.URL.Path == "/api/v1":
		answer = kinds("v1", "Node", "Namespace", "Secret")
	case strings.HasPrefix(r.URL.Path, "/apis/"):
		answer = kinds(strings.TrimPrefix(r.URL.Path, "/apis/"), "BareMetalHost")
	case resource == "nodes":
		answer = corev1.NodeList{}
	default:
		answer = corev1.NamespaceList{}
	}
	w.Header().Set("Content-Type", "application/json")
	// A closed client connection does not matter.
	_ = json.NewEncoder(w).Encode(answer)
}

func kinds(groupVersion string, names ...string) metav1.APIResourceList {
	list := metav1.APIResourceList{GroupVersion: groupVersion}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: strings.ToLower(name) + "s", Kind: name})
	}
	return list
}

// managerOf returns a manager of an API server. It is not the leader of others, and serves no metrics and no probes.
func managerOf(t *testing.T, apiServer http.Handler) (ctrl.Manager, *Flags) {
	t.Helper()
	server := httptest.NewUnstartedServer(apiServer)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	settings := NewFlags(func(string) string { return "" })
	settings.Add(pflag.NewFlagSet("manager", pflag.ContinueOnError))
	settings.HealthAddress, settings.Manager.DiagnosticsAddress, settings.LeaderElect = "0", "0", false
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	mgr, err := newManager(config, settings)
	if err != nil {
		t.Fatal(err)
	}
	return mgr, settings
}

// TestWatchesHaveTheirOwnConnection reads Nodes from the cache of the manager, and Namespaces live.
func TestWatchesHaveTheirOwnConnection(t *testing.T) {
	asked := &apiServer{from: map[string]map[string]bool{}}
	mgr, _ := managerOf(t, asked)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Node{}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = mgr.GetCache().Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache has not synced")
	}
	if err := mgr.GetAPIReader().List(ctx, &corev1.NamespaceList{}); err != nil {
		t.Fatal(err)
	}
	asked.mutex.Lock()
	defer asked.mutex.Unlock()
	for connection := range asked.from["nodes"] {
		if asked.from["namespaces"][connection] {
			t.Error("watches share a connection with requests")
		}
	}
	if len(asked.from["nodes"]) != 1 || len(asked.from["namespaces"]) != 1 {
		t.Errorf("got %v, want one connection for watches and one for requests", asked.from)
	}
}
