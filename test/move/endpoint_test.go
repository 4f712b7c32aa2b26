package move_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// clusterID is the prefix of the conductors of a cluster with an Ironic endpoint.
const clusterID = "c1"

// endpoint is the Ironic endpoint of a cluster: an Ironic behind TLS, with the certificate and the credentials of the
// cluster, under the name of a conductor that can change.
type endpoint struct {
	host string
	port int32

	proxy *httputil.ReverseProxy

	mutex sync.Mutex
	// material is nil while the endpoint is closed: connections end at once.
	material  *secrets.Material
	conductor string

	// expected are the names of hosts by the names and IDs of their nodes in requests. looked is the time of the first
	// request for each host.
	expected map[string]string
	looked   map[string]time.Time
}

// newEndpoint creates an endpoint in front of an Ironic. Before it gets its material, it does not answer.
func newEndpoint(behind ironicapi.Endpoint) *endpoint {
	GinkgoHelper()
	e := &endpoint{host: ownAddress(), conductor: clusterID + "-management"}
	target, err := url.Parse(strings.TrimSuffix(behind.URL, "/v1/"))
	Expect(err).NotTo(HaveOccurred())
	e.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.SetBasicAuth(behind.Username, behind.Password)
		},
		Transport: &http.Transport{TLSClientConfig: trust(behind.Authority)},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	server := httptest.NewUnstartedServer(e)
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(e.host, "0"))
	Expect(err).NotTo(HaveOccurred())
	Expect(server.Listener.Close()).To(Succeed())
	server.Listener = listener
	// The client requests an address, which is not a server name. TLS does not call GetCertificate without a server name.
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: e.identity}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	DeferCleanup(server.Close)
	DeferCleanup(server.CloseClientConnections)
	address, isTCP := listener.Addr().(*net.TCPAddr)
	Expect(isTCP).To(BeTrue())
	e.port = int32(address.Port)
	return e
}

// trust returns the settings for an Ironic whose certificate an authority has signed.
func trust(authority []byte) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
}

// ownAddress returns an address of this machine. The webhook refuses a loopback address as an endpoint.
func ownAddress() string {
	GinkgoHelper()
	addresses, err := net.InterfaceAddrs()
	Expect(err).NotTo(HaveOccurred())
	for _, address := range addresses {
		network, isNetwork := address.(*net.IPNet)
		if isNetwork && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.String()
		}
	}
	panic(skipped("this machine has no address but that of the loopback interface, which cannot be an Ironic endpoint"))
}

func (e *endpoint) change(edit func(*endpoint)) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	edit(e)
}

// heldBy sets the conductor that the endpoint names.
func (e *endpoint) heldBy(conductor string) {
	e.change(func(e *endpoint) { e.conductor = conductor })
}

func (e *endpoint) identity(*tls.ClientHelloInfo) (*tls.Config, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.material == nil {
		return nil, errors.New("the endpoint is closed")
	}
	pair, err := tls.X509KeyPair(e.material.Certificate, e.material.Key)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, err
}

// ServeHTTP answers the requests for versions and conductors, and forwards all others.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mutex.Lock()
	material, conductor := e.material, e.conductor
	if host, counts := e.expected[strings.TrimPrefix(r.URL.Path, "/v1/nodes/")]; counts && e.looked[host].IsZero() {
		e.looked[host] = time.Now()
	}
	e.mutex.Unlock()
	user, password, _ := r.BasicAuth()
	switch {
	case r.URL.Path == "/v1/":
		reply(w, map[string]any{"version": map[string]string{
			"id": "v1", "min_version": "1.1", "version": "1.96", "status": "CURRENT",
		}})
	case user != string(material.Username) || password != string(material.Password):
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/v1/drivers":
		reply(w, map[string]any{"drivers": []any{map[string]any{"name": "redfish", "hosts": []string{conductor}}}})
	default:
		e.proxy.ServeHTTP(w, r)
	}
}

func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	// The client may have closed the connection.
	_ = json.NewEncoder(w).Encode(answer)
}

// access returns the endpoint for BMO. The endpoint must be open.
func (e *endpoint) access() ironicapi.Endpoint {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return ironicapi.Endpoint{
		URL: fmt.Sprintf("https://%s:%d/v1/", e.host, e.port), Authority: e.material.Authority,
		Username: string(e.material.Username), Password: string(e.material.Password),
	}
}

// expect starts to record the first request for each host. looks returns the times so far.
func (e *endpoint) expect(hosts map[string]*bmov1alpha1.BareMetalHost) {
	e.change(func(e *endpoint) {
		e.expected, e.looked = map[string]string{}, map[string]time.Time{}
		for name, host := range hosts {
			e.expected[host.Status.Provisioning.ID], e.expected[host.Namespace+"~"+name] = name, name
		}
	})
}

func (e *endpoint) looks() map[string]time.Time {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return maps.Clone(e.looked)
}

// at sets this endpoint on a Metal3Cluster.
func (e *endpoint) at() build.ObjectOption {
	return stage.With(func(infra *infrav1.Metal3Cluster) {
		infra.Spec.Ironic = &infrav1.Ironic{
			ClusterID: clusterID,
			Endpoint: infrav1.IronicEndpoint{
				VirtualIPs: []string{e.host}, CIDRs: []string{e.host + "/8"}, Interface: "eth0", Port: e.port,
			},
		}
	})
}

// open lets the endpoint answer with the credentials and the certificate in the Secret of the cluster.
func (w *world) open(ctx context.Context, e *endpoint, cluster string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		secret := &corev1.Secret{}
		g.Expect(w.here.client.Get(ctx, w.key(secrets.Name(cluster)), secret)).To(Succeed())
		material, err := secrets.Read(secret.Data)
		g.Expect(err).NotTo(HaveOccurred())
		e.change(func(e *endpoint) { e.material = &material })
	}).Should(Succeed())
	w.infras(ctx, stage.HaveCondition(infrav1.IronicEndpointReadyCondition, stage.IsTrue()))
}

// endpoints are the stories of clusters with an Ironic endpoint. There are no nodes here, so no node is armed, and
// ReadyForMove reports that the nodes are not known.
func endpoints(c *clusters) []story {
	return []story{
		{"resumes hosts that arrive before the Ironic endpoint when the endpoint is verified", func(ctx context.Context) {
			home, served := c.world(ctx), c.world(ctx)
			e := newEndpoint(home.ironic.Access())
			home.cluster(ctx, "cluster", e.at())
			home.open(ctx, e, "cluster")
			served.fleet(ctx, "cluster", 1, 1)
			served.readyForMove(ctx)
			before := served.trace(ctx)

			By("arriving before the namespace with the endpoint")
			served.move(ctx)
			for _, host := range []string{"cluster-0", "cluster-free-0"} {
				served.eventually(ctx, host, isPausedBy(infrav1.HostPausedByProvider), HaveField("Annotations", And(
					HaveKeyWithValue(infrav1.IronicClusterIDAnnotation, clusterID),
					HaveKeyWithValue(infrav1.PauseReasonAnnotation, pivot.PauseReason(pivot.AwaitIronic)))))
			}
			journey := home.begin(ctx)
			home.await(ctx, home.there, watch.Added, &infrav1.Metal3ClusterList{})
			e.heldBy("other-node")
			home.arrive(ctx, journey)
			home.infras(ctx, stage.HaveCondition(infrav1.IronicEndpointReadyCondition,
				stage.IsFalseBecause(infrav1.EndpointForeignReason, "other-node")))
			Consistently(func(g Gomega) {
				g.Expect(served.hosts(ctx, g, served.here)).To(HaveEach(And(
					isPausedBy(infrav1.HostPausedByProvider), inState(bmov1alpha1.StateNone))))
			}).Should(Succeed())
			served.nothingDone(before)

			By("verifying the own Ironic, without the kubeconfig of its cluster")
			e.heldBy(clusterID + "-management")
			home.infras(ctx, stage.HaveCondition(infrav1.IronicEndpointReadyCondition,
				stage.IsFalseBecause(infrav1.EndpointFailedReason, "Restore Secret cluster-kubeconfig")))
			served.nothingDone(before)

			By("restoring the kubeconfig")
			home.silent(ctx, "cluster")
			served.unharmed(ctx, before)
			served.settled(ctx)

			// The next story has an endpoint with this VIP.
			home.clear(ctx, home.here)
		}},
		{"resumes hosts with their own Ironic only, and another Ironic adopts all of them", func(ctx context.Context) {
			w := c.world(ctx)
			e := newEndpoint(w.ironic.Access())
			w.cluster(ctx, "cluster", e.at())
			w.open(ctx, e, "cluster")
			w.silent(ctx, "cluster")
			for _, name := range []string{"cp-0", "worker-0", "worker-1"} {
				w.host(ctx, name)
			}
			w.host(ctx, "free")
			w.machine(ctx, "cluster", "cp-0", controlPlane())
			w.machine(ctx, "cluster", "worker-0")
			w.machine(ctx, "cluster", "worker-1")
			w.settled(ctx)
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition,
				stage.IsFalseBecause(infrav1.NotReadyForMoveReason, "whether the control plane can take the Ironic endpoint")))
			before := w.trace(ctx)

			By("arriving where a foreign Ironic answers")
			journey := w.begin(ctx)
			w.eventually(ctx, "cp-0", isPausedBy(infrav1.HostPausedByProvider))
			e.heldBy("other-node")
			w.arrive(ctx, journey)
			w.infras(ctx, stage.HaveCondition(infrav1.IronicEndpointReadyCondition,
				stage.IsFalseBecause(infrav1.EndpointForeignReason, "other-node")))
			Consistently(func(g Gomega) {
				for name, host := range w.hosts(ctx, g, w.here) {
					g.Expect(host).To(And(isPausedBy(infrav1.HostPausedByProvider), inState(bmov1alpha1.StateNone)), name)
				}
			}).Should(Succeed())
			w.nothingDone(before)

			By("verifying the own Ironic")
			e.heldBy(clusterID + "-management")
			w.unharmed(ctx, before)

			By("handing the endpoint over to an Ironic without registered hosts")
			handover := w.trace(ctx)
			w.ironic.Empty()
			e.heldBy(clusterID + "-cp-0")
			Eventually(func(g Gomega) {
				infra := &infrav1.Metal3Cluster{}
				g.Expect(w.here.client.Get(ctx, w.key("cluster"), infra)).To(Succeed())
				g.Expect(infra.Status.Ironic).To(HaveValue(And(
					HaveField("Holder", HaveValue(Equal(infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "cp-0"}))),
					HaveField("KnownHosts", HaveValue(BeEquivalentTo(3))),
				)))
			}).Should(Succeed())
			w.adopted(ctx, handover, "ControlPlane/cp-0")
			w.losesRegistration(ctx, "worker-0")

			By("switching the management cluster on again")
			after := w.trace(ctx)
			w.there.kill()
			w.there.start(ctx)
			w.there.restartBMO(ctx)
			Expect(w.hosts(ctx, Default, w.there)).To(BeEmpty())
			w.unharmed(ctx, after)
			w.nothingDone(after)
		}},
	}
}

// losesRegistration makes BMO lose the ID of a node that it has saved. It requires that BMO does not save the ID again
// by itself: otherwise the manager need not help.
func (w *world) losesRegistration(ctx context.Context, name string) {
	GinkgoHelper()
	By("losing the registration of a host")
	node, known := w.ironic.Node(w.namespace + "~" + name)
	Expect(known).To(BeTrue())
	before := w.trace(ctx)
	const lost = "00000000-0000-0000-0000-000000000000"
	stage.ChangeStatus(ctx, w.here.client, w.key(name), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		host.Status.Provisioning.ID = lost
	})
	for touch := range 3 {
		was := w.ironic.Looks(node.Name)
		w.touch(ctx, name, touch)
		Eventually(func() int { return w.ironic.Looks(node.Name) }).Should(BeNumerically(">", was))
	}
	w.untouch(ctx, name)
	w.eventually(ctx, name, HaveField("Status.Provisioning.ID", lost))

	By("waiting until BMO saves the ID again")
	saved := func(g Gomega) {
		g.Expect(w.hosts(ctx, g, w.here)[name]).To(And(isFine(), HaveField("Status.Provisioning.ID", node.UUID),
			HaveField("Annotations", Not(HaveKey(infrav1.LostRegistrationAnnotation)))))
	}
	Eventually(saved).WithTimeout(3 * patience).Should(Succeed())
	w.unharmed(ctx, before)
	// The manager annotates the Secret before the host, so BMO may have saved the ID before the host got its annotation.
	Eventually(saved).Should(Succeed())
}

// adopted waits until an Ironic with an empty database has adopted all hosts, and requires that they do not change
// otherwise.
func (w *world) adopted(ctx context.Context, before trace, holder string) {
	GinkgoHelper()
	wanted := trace{pictures: map[string]picture{}, calls: before.calls}
	for name, was := range before.pictures {
		id := was.Status.Provisioning.ID
		w.eventually(ctx, name, isFine(), inState(was.Status.Provisioning.State),
			HaveField("Status.Provisioning.ID", Not(Equal(id))),
			HaveField("Annotations", HaveKeyWithValue(infrav1.IronicHolderAnnotation, holder)))
		stable := []string{string(nodes.Manageable), string(nodes.Available)}
		if was.Spec.Image != nil {
			stable = []string{string(nodes.Active)}
		}
		var node nodes.Node
		Eventually(func() string {
			node, _ = w.ironic.Node(w.namespace + "~" + name)
			return node.ProvisionState
		}).Should(BeElementOf(stable), name)
		was.Status.Provisioning.ID = node.UUID
		was.Annotations = maps.Clone(was.Annotations)
		was.Annotations[infrav1.IronicHolderAnnotation] = holder
		wanted.pictures[name] = was
	}
	w.same(ctx, wanted)
	w.nothingDone(before, "enroll", "port", "update", "manage", "adopt")
}
