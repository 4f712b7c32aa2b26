package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// clustersServer is an API server with Clusters and the Secrets with their kubeconfigs.
type clustersServer struct {
	apiServer
	clusters clusterv1.ClusterList
	secrets  corev1.SecretList
}

func (c *clustersServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch {
	case r.URL.Query().Has("watch"):
	case r.URL.Path == "/apis/cluster.x-k8s.io/v1beta2":
		answer = namespaced(kinds(clusterv1.GroupVersion.String(), "Cluster"))
	case r.URL.Path == "/api/v1":
		answer = namespaced(kinds("v1", "Secret"))
	case r.URL.Path == "/apis/cluster.x-k8s.io/v1beta2/clusters":
		answer = c.clusters
	case r.URL.Path == "/api/v1/secrets":
		answer = c.secrets
	}
	if answer == nil {
		c.apiServer.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// A closed client connection does not matter.
	_ = json.NewEncoder(w).Encode(answer)
}

func namespaced(list metav1.APIResourceList) metav1.APIResourceList {
	for i := range list.APIResources {
		list.APIResources[i].Namespaced = true
	}
	return list
}

func (c *clustersServer) add(name, kubeconfig string) {
	meta := metav1.ObjectMeta{
		Namespace: "tenant", Name: name, ResourceVersion: "1", Labels: map[string]string{clusterv1.ClusterNameLabel: name},
	}
	cluster := clusterv1.Cluster{ObjectMeta: meta}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "Metal3Cluster", Name: name,
	}
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	c.clusters.Items = append(c.clusters.Items, cluster)
	meta.Name += "-kubeconfig"
	c.secrets.Items = append(c.secrets.Items, corev1.Secret{
		ObjectMeta: meta, Data: map[string][]byte{"value": []byte(kubeconfig)},
	})
}

// tenant records the credentials of requests by the first element of their path.
type tenant struct {
	mutex sync.Mutex
	got   map[string]string
}

func (s *tenant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.got[strings.Split(r.URL.Path, "/")[1]] = r.Header.Get("Authorization")
	http.NotFound(w, r)
}

// TestKubeconfigsReadNoFiles connects to the server of a tenant with kubeconfigs that name a file of the manager, and
// with one that has its credential.
func TestKubeconfigsReadNoFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("token-of-the-manager"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := &tenant{got: map[string]string{}}
	remote := httptest.NewTLSServer(other)
	t.Cleanup(remote.Close)
	management := &clustersServer{apiServer: apiServer{from: map[string]map[string]bool{}}}
	for name, user := range map[string]string{
		"embedded": "token: own", "file": "tokenFile: " + file, "both": "token: own, tokenFile: " + file,
	} {
		management.add(name, fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a,
			clusters: [{name: a, cluster: {server: "%s/%s", insecure-skip-tls-verify: true}}],
			contexts: [{name: a, context: {cluster: a, user: a}}],
			users: [{name: a, user: {%s}}]}`, remote.URL, name, user))
	}
	clusters := startClusterCache(t, management)
	for i := range management.clusters.Items {
		key := client.ObjectKeyFromObject(&management.clusters.Items[i])
		for end := time.Now().Add(time.Minute); clusters.GetHealthCheckingState(t.Context(), key).LastProbeTime.IsZero(); {
			if time.Now().After(end) {
				t.Fatalf("no attempt to connect to %s", key)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	other.mutex.Lock()
	defer other.mutex.Unlock()
	if len(other.got) != 1 || other.got["embedded"] != "Bearer own" {
		t.Errorf("the server of the tenant received %v, want the embedded token", other.got)
	}
}

// startClusterCache starts the ClusterCache of a manager.
func startClusterCache(t *testing.T, management http.Handler) clustercache.ClusterCache {
	t.Helper()
	mgr, settings := managerOf(t, management)
	ctx, cancel := context.WithCancel(t.Context())
	// The name of a controller is unique in the process, also when the test runs again.
	clusters, err := clustercache.SetupWithManager(ctx, mgr, connections(mgr.GetCache(), settings),
		controller.Options{SkipNameValidation: ptr.To(true)})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("stopping the manager: %v", err)
		}
	})
	return clusters
}
