package metal3cluster_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// fakeIronic is the Ironic at the endpoint of a story, with the material of the endpoint's Secret.
type fakeIronic struct {
	port int32

	mutex sync.Mutex

	// material is nil while Ironic does not answer: connections end at once.
	material *secrets.Material

	// conductors and nodes are the responses.
	conductors, nodes []string

	// began is the time at which the conductors registered with their database. Empty means any time.
	began string

	// stuck requests get no response.
	stuck bool
}

// newIronic starts an Ironic that does not answer yet.
func newIronic() *fakeIronic {
	GinkgoHelper()
	i := &fakeIronic{}
	server := httptest.NewUnstartedServer(i)
	// The client sends no server name for an IP address. GetCertificate would not be called.
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: i.identity}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	DeferCleanup(server.CloseClientConnections)
	DeferCleanup(server.Close)
	address, isTCP := server.Listener.Addr().(*net.TCPAddr)
	Expect(isTCP).To(BeTrue())
	i.port = int32(address.Port)
	return i
}

func (i *fakeIronic) change(edit func(*fakeIronic)) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	edit(i)
}

func (i *fakeIronic) identity(*tls.ClientHelloInfo) (*tls.Config, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.material == nil {
		return nil, errors.New("not reachable")
	}
	pair, err := tls.X509KeyPair(i.material.Certificate, i.material.Key)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, err
}

func (i *fakeIronic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mutex.Lock()
	material, stuck := i.material, i.stuck
	conductors, nodes, began := i.conductors, i.nodes, cmp.Or(i.began, "2026-01-02T03:04:05+00:00")
	i.mutex.Unlock()
	if stuck {
		<-r.Context().Done()
		return
	}
	user, password, _ := r.BasicAuth()
	var answer any
	switch {
	case r.URL.Path == "/v1/":
		answer = map[string]any{"version": map[string]string{"id": "v1", "min_version": "1.1", "version": "1.96", "status": "CURRENT"}}
	case user != string(material.Username) || password != string(material.Password):
		w.WriteHeader(http.StatusUnauthorized)
		return
	case strings.HasPrefix(r.URL.Path, "/v1/drivers"):
		answer = map[string]any{"drivers": []any{map[string]any{"name": "redfish", "hosts": conductors}}}
	case strings.HasPrefix(r.URL.Path, "/v1/conductors"):
		list := []any{}
		for _, name := range conductors {
			list = append(list, map[string]string{"hostname": name, "created_at": began})
		}
		answer = map[string]any{"conductors": list}
	default:
		list := []any{}
		for _, name := range nodes {
			list = append(list, map[string]string{"uuid": name, "name": name, "provision_state": "active"})
		}
		answer = map[string]any{"nodes": list}
	}
	w.Header().Set("Content-Type", "application/json")
	// A closed client connection does not matter.
	_ = json.NewEncoder(w).Encode(answer)
}

// withIronic returns a Metal3Cluster with an Ironic endpoint.
func withIronic(i *fakeIronic, edit ...func(*infrav1.Ironic)) build.ObjectOption {
	return stage.With(func(infra *infrav1.Metal3Cluster) {
		infra.Spec.Ironic = &infrav1.Ironic{
			ClusterID: "c1",
			Endpoint: infrav1.IronicEndpoint{
				VirtualIPs: []string{"127.0.0.1"}, CIDRs: []string{"127.0.0.0/8"}, Interface: "lo", Port: i.port,
			},
		}
		for _, change := range edit {
			change(infra.Spec.Ironic)
		}
	})
}

// material waits for the Secret of the endpoint.
func (w *world) material(ctx context.Context) secrets.Material {
	GinkgoHelper()
	var material secrets.Material
	Eventually(func(g Gomega) {
		secret := &corev1.Secret{}
		g.Expect(w.client.Get(ctx, w.key("cluster-ironic"), secret)).To(Succeed())
		var err error
		material, err = secrets.Read(secret.Data)
		g.Expect(err).NotTo(HaveOccurred())
	}).Should(Succeed())
	return material
}

func (w *world) holder(ctx context.Context, kind infrav1.HolderKind, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(w.get(ctx, g).Status.Ironic).To(HaveValue(HaveField("Holder",
			HaveValue(And(HaveField("Kind", kind), HaveField("Name", name))))))
	}).Should(Succeed())
}

// holderEvents returns the notes of the events about VIP holders.
func (w *world) holderEvents(ctx context.Context, g Gomega) []string {
	var list eventsv1.EventList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var notes []string
	for _, event := range list.Items {
		if event.Reason == "IronicHolderChanged" {
			notes = append(notes, event.Note)
		}
	}
	return notes
}

// describeIronic are the stories of the Ironic endpoint.
func describeIronic(s *suite) {
	It("reports the VIP holder through a pivot and back", func(ctx context.Context) {
		w := s.world(ctx)
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(ironic))
		w.controlPlaneNode(ctx, "cp-0")
		for _, host := range []string{"a", "b"} {
			w.create(ctx, build.Host(host, build.InNamespace(w.namespace),
				build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName})))
		}
		material := w.material(ctx)
		w.ready(ctx)
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.EndpointUnreachableReason, "127.0.0.1"))
		w.holder(ctx, infrav1.HolderNone, "")

		ironic.change(func(i *fakeIronic) { i.material, i.conductors = &material, []string{"c1-management"} })
		w.holder(ctx, infrav1.HolderManagement, "management")
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsTrueBecause(infrav1.EndpointAnswersReason))
		Expect(w.get(ctx, Default).Status.Ironic.KnownHosts).To(HaveValue(BeZero()))

		ironic.change(func(i *fakeIronic) {
			i.conductors = []string{"c1-cp-0"}
			i.nodes = []string{w.namespace + "~a", w.namespace + "~other"}
		})
		w.holder(ctx, infrav1.HolderControlPlane, "cp-0")
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g).Status.Ironic.KnownHosts).To(HaveValue(BeEquivalentTo(1)))
		}).Should(Succeed())

		ironic.change(func(i *fakeIronic) { i.conductors = []string{"other-node"} })
		w.holder(ctx, infrav1.HolderForeign, "other-node")
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.EndpointForeignReason, "other-node"))
		w.eventually(ctx, infrav1.ReadyCondition, stage.IsTrue())
		Expect(w.get(ctx, Default).Status.Ironic.KnownHosts).To(BeNil(), "the nodes of a foreign Ironic are not counted")

		ironic.change(func(i *fakeIronic) { i.conductors = []string{"c1-cp-0"} })
		w.holder(ctx, infrav1.HolderControlPlane, "cp-0")
		Eventually(func(g Gomega) {
			g.Expect(w.holderEvents(ctx, g)).To(ConsistOf(
				"The holder of the Ironic endpoint changed to Management management from no Ironic",
				"The holder of the Ironic endpoint changed to ControlPlane cp-0 from Management management",
				"The holder of the Ironic endpoint changed to Foreign other-node from ControlPlane cp-0",
				"The holder of the Ironic endpoint changed to ControlPlane cp-0 from Foreign other-node",
			))
		}).Should(Succeed())

		By("restarting the Ironic with an empty database")
		before := w.get(ctx, Default).Status.Ironic.Holder
		Expect(before.Term).To(Equal("2026-01-02T03:04:05Z"))
		ironic.change(func(i *fakeIronic) { i.began, i.nodes = "2026-01-02T04:00:00+00:00", nil })
		Eventually(func(g Gomega) {
			status := w.get(ctx, g).Status.Ironic
			g.Expect(status.Holder.Term).To(Equal("2026-01-02T04:00:00Z"))
			g.Expect(status.KnownHosts).To(HaveValue(BeZero()), "the nodes and the term have separate requests")
			g.Expect(w.holderEvents(ctx, g)).To(ContainElement("The Ironic of ControlPlane cp-0 restarted with an empty database"))
		}).Should(Succeed())
		w.untouched(ctx)
	})

	It("reports a node of a cluster that shares the endpoint as a control-plane node", func(ctx context.Context) {
		w := s.world(ctx)
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(ironic))
		w.controlPlaneNode(ctx, "cp-0")
		w.another(ctx, "other", withIronic(ironic))
		w.controlPlaneNodeOf(ctx, "other", "other-cp-0")
		material := w.material(ctx)
		ironic.change(func(i *fakeIronic) { i.material, i.conductors = &material, []string{"c1-other-cp-0"} })
		w.holder(ctx, infrav1.HolderControlPlane, "other-cp-0")
		ironic.change(func(i *fakeIronic) { i.conductors = []string{"c1-management"} })
		w.holder(ctx, infrav1.HolderManagement, "management")
	})

	It("reports wrong credentials, another certificate authority, and a closed port", func(ctx context.Context) {
		w := s.world(ctx)
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(ironic))
		material := w.material(ctx)
		refusing := material
		refusing.Password = []byte("another")
		ironic.change(func(i *fakeIronic) { i.material = &refusing })
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.EndpointUnauthorizedReason, "credentials"))
		ironic.change(func(i *fakeIronic) { i.material = &material })
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.EndpointStartingReason, "no conductor"))
		Expect(w.get(ctx, Default).Status.Ironic).To(BeNil(), "the holder is not known")

		other := s.world(ctx)
		otherIronic := newIronic()
		other.manager.Start()
		other.infrastructure(ctx, other.cluster(ctx), withIronic(otherIronic))
		otherMaterial := other.material(ctx)
		ironic.change(func(i *fakeIronic) { i.material = &otherMaterial })
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.EndpointUntrustedReason, "authority"))

		stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Spec.Ironic.Endpoint.Port = unusedPort()
		})
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.EndpointUnreachableReason, "refused"))
		w.holder(ctx, infrav1.HolderNone, "")
		w.ready(ctx)
	})

	It("reconciles while Ironic does not answer", func(ctx context.Context) {
		w := s.world(ctx)
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(ironic))
		material := w.material(ctx)
		ironic.change(func(i *fakeIronic) { i.material, i.stuck = &material, true })
		stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Spec.FailureDomains = domains("a")
		})
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g).Status.FailureDomains).To(Equal(domains("a")))
		}).WithTimeout(stage.Patience / 20).Should(Succeed())
	})

	It("sets a missing clusterID, and keeps it", func(ctx context.Context) {
		w := s.world(ctx)
		running := w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(newIronic(), func(i *infrav1.Ironic) { i.ClusterID = "" }))
		material := w.material(ctx)
		chosen := w.get(ctx, Default).Spec.Ironic.ClusterID
		Expect(chosen).To(MatchRegexp("^[0-9a-f]{8}$"))
		running.Stop()
		w.manager.Start()
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, HaveField("Reason", Not(Equal(infrav1.NotYetObservedReason))))
		Expect(w.get(ctx, Default).Spec.Ironic.ClusterID).To(Equal(chosen))
		Expect(w.material(ctx)).To(Equal(material), "a restart generates no other credentials")
	})

	It("waits for a Secret of the user, and reports its missing key", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(newIronic(), func(i *infrav1.Ironic) {
			i.CredentialsRef = &corev1.LocalObjectReference{Name: "mine"}
		}))
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.WaitingForIronicSecretReason,
			"Waiting for Secret mine, which spec.ironic.credentialsRef names"))
		w.ready(ctx)
		mine := &corev1.Secret{ObjectMeta: named(w.namespace, "mine"), StringData: map[string]string{"username": "admin"}}
		w.create(ctx, mine)
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.IronicSecretInvalidReason,
			"Secret mine, which spec.ironic.credentialsRef names, lacks password: add it"))
		stage.Change(ctx, w.client, w.key("mine"), mine, func(secret *corev1.Secret) {
			secret.StringData = map[string]string{"password": "given"}
		})
		Expect(w.material(ctx).Password).To(BeEquivalentTo("given"))
		Expect(w.client.Get(ctx, w.key("mine"), mine)).To(Succeed())
		Expect(mine.OwnerReferences).To(ConsistOf(HaveField("UID", w.get(ctx, Default).UID)))
	})

	It("does not use the credentials of a BMC before BMO reconciles the host", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "rack-1")
		w.create(ctx, build.ControllerSecret(build.Host("rack-1", build.InNamespace(w.namespace))))
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(newIronic(), func(i *infrav1.Ironic) {
			i.CredentialsRef = &corev1.LocalObjectReference{Name: "rack-1-bmc"}
		}))
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.IronicSecretInvalidReason,
			"Secret rack-1-bmc, which spec.ironic.credentialsRef names, is spec.bmc.credentialsName of BareMetalHost rack-1"))
	})

	It("removes status and conditions of the endpoint when spec.ironic is removed", func(ctx context.Context) {
		w := s.world(ctx)
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(ironic))
		material := w.material(ctx)
		ironic.change(func(i *fakeIronic) { i.material, i.conductors = &material, []string{"c1-management"} })
		w.holder(ctx, infrav1.HolderManagement, "management")
		stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Spec.Ironic = nil
		})
		Eventually(func(g Gomega) {
			infra := w.get(ctx, g)
			g.Expect(infra.Status.Ironic).To(BeNil())
			g.Expect(meta.FindStatusCondition(infra.Status.Conditions, infrav1.IronicEndpointReadyCondition)).To(BeNil())
		}).Should(Succeed())
		w.untouched(ctx)
	})
}

// unusedPort returns a port without a listener.
func unusedPort() int32 {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	address, isTCP := listener.Addr().(*net.TCPAddr)
	Expect(isTCP).To(BeTrue())
	Expect(listener.Close()).To(Succeed())
	return int32(address.Port)
}

// controlPlaneNode creates a Machine of the control plane with a Node.
func (w *world) controlPlaneNode(ctx context.Context, node string) {
	GinkgoHelper()
	w.controlPlaneNodeOf(ctx, clusterName, node)
}

func (w *world) controlPlaneNodeOf(ctx context.Context, cluster, node string) {
	GinkgoHelper()
	machine := build.ControlPlaneMachine(node, cluster, build.InNamespace(w.namespace))
	machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: node}
	w.create(ctx, machine)
	Expect(metav1.HasLabel(machine.ObjectMeta, clusterv1.MachineControlPlaneLabel)).To(BeTrue())
}
