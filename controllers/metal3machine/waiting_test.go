package metal3machine_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeWaiting are the stories about the waits of a machine. The event of the missing object ends each wait.
func describeWaiting(s *suite) {
	It("waits for its preconditions in order and reports each", func(ctx context.Context) {
		w := s.emptyWorld(ctx)
		w.host(ctx, "host")
		w.start()
		waits := func(reason, message string) {
			GinkgoHelper()
			w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(reason, message))
			w.eventually(ctx, "machine", infrav1.ReadyCondition, stage.IsFalseBecause(reason, message))
		}

		w.create(ctx, build.Metal3Machine("machine", clusterName, build.InNamespace(w.namespace),
			stage.With(func(machine *infrav1.Metal3Machine) {
				machine.Spec.NetworkData = &corev1.SecretReference{Name: "own"}
			})))
		waits(infrav1.WaitingForMachineReason, "ownerReference of a Machine")

		owner := w.owner(ctx, "machine", build.WithoutBootstrapData())
		change(ctx, w, "machine", &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
			build.OwnedBy(owner)(machine)
		})
		waits(infrav1.WaitingForMachineReason, "Waiting for Cluster cluster of Machine machine to exist")

		w.create(ctx, build.Cluster(clusterName, build.InNamespace(w.namespace)))
		waits(infrav1.WaitingForMetal3ClusterReason, "Waiting for Metal3Cluster cluster of Cluster cluster to exist")

		w.create(ctx, build.Metal3Cluster(clusterName, build.InNamespace(w.namespace), ofCluster(clusterName)))
		waits(infrav1.WaitingForInfrastructureReason, "infrastructure of Cluster cluster to be provisioned")

		changeStatus(ctx, w, clusterName, &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
		})
		waits(infrav1.WaitingForBootstrapDataReason, "bootstrap provider to create the bootstrap data of Machine machine")

		change(ctx, w, "machine", &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			machine.Spec.Bootstrap.DataSecretName = ptr.To("machine-bootstrap")
		})
		waits(infrav1.WaitingForBootstrapDataReason, "Waiting for Secret machine-bootstrap with the bootstrap data")

		secret := build.BootstrapSecret("machine", "", nil, build.InNamespace(w.namespace), ofCluster(clusterName))
		secret.Data = map[string][]byte{"other": []byte("data")}
		w.create(ctx, secret)
		waits(infrav1.BootstrapDataInvalidReason, `Secret machine-bootstrap with the bootstrap data has no key "value". `+
			"Add the key, or delete Machine machine to replace it")
		Expect(w.hostsOf(ctx, Default, "machine")).To(BeEmpty())
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "machine")).To(ConsistOf(infrav1.BootstrapDataInvalidReason),
				"the usual wait is not reported")
		}).Should(Succeed())

		change(ctx, w, "machine-bootstrap", &corev1.Secret{}, func(secret *corev1.Secret) {
			secret.Data = map[string][]byte{"value": []byte("#cloud-config")}
		})
		waits(infrav1.DataSecretMissingReason, "Secret own, which spec.networkData names, does not exist. Create it")
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "machine")).To(ConsistOf(
				infrav1.BootstrapDataInvalidReason, infrav1.DataSecretMissingReason))
		}).Should(Succeed())

		w.dataSecrets(ctx, "own")
		Expect(w.associated(ctx, "machine")).To(Equal("host"))
	})

	It("finds bootstrap data without a label", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.create(ctx, build.BootstrapSecret("machine", "", []byte("data"), build.InNamespace(w.namespace)))
		w.start()
		w.metal3Machine(ctx, w.owner(ctx, "machine"))
		Expect(w.associated(ctx, "machine")).To(Equal("host"))
	})

	It("reports an invalid spec until it is corrected", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.machine(ctx, "machine", stage.With(func(machine *infrav1.Metal3Machine) { machine.Spec.Image = nil }))
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition,
			stage.IsFalseBecause(infrav1.InvalidSpecReason, "spec.image: set it, or spec.customDeploy"))
		Expect(w.hostsOf(ctx, Default, "machine")).To(BeEmpty())
		change(ctx, w, "machine", &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
			machine.Spec.CustomDeploy = &infrav1.CustomDeploy{Method: "install"}
		})
		Expect(w.associated(ctx, "machine")).To(Equal("host"))
		Expect(w.getHost(ctx, Default, "host").Spec.CustomDeploy).To(HaveField("Method", "install"))
	})

	It("reports an invalid selector until it is corrected", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.Labels(map[string]string{"rack": "a"}))
		w.start()
		selector := infrav1.HostSelectorRequirement{Key: "rack", Operator: "within", Values: []string{"a"}}
		w.machine(ctx, "machine", stage.With(func(machine *infrav1.Metal3Machine) {
			machine.Spec.HostSelector.MatchExpressions = []infrav1.HostSelectorRequirement{selector}
		}))
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.InvalidHostSelectorReason,
			`spec.hostSelector.matchExpressions[0]: operator "within" is unknown`))
		change(ctx, w, "machine", &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
			machine.Spec.HostSelector.MatchExpressions[0].Operator = "in"
		})
		Expect(w.associated(ctx, "machine")).To(Equal("host"))
	})

	It("counts the reasons why it can claim no host", func(ctx context.Context) {
		w := s.world(ctx)
		other := build.Metal3Machine("other", clusterName, build.InNamespace(w.namespace))
		rack := build.Labels(map[string]string{"rack": "a"})
		for name, option := range map[string]build.HostOption{
			"claimed-0": build.Consumed(other), "claimed-1": build.Consumed(other),
			"paused":       build.Paused(""),
			"detached":     build.Annotations(map[string]string{bmov1alpha1.DetachedAnnotation: ""}),
			"unhealthy":    build.Annotations(map[string]string{infrav1.UnhealthyAnnotation: ""}),
			"unhealthy-2":  build.Annotations(map[string]string{infrav1.DeprecatedUnhealthyAnnotation: ""}),
			"in-error":     build.Error("no power"),
			"inspecting":   build.State(bmov1alpha1.StateInspecting),
			"reserved":     build.Labels(map[string]string{infrav1.NodeReuseLabel: "md-others"}),
			"by-hand":      build.Provisioned(),
			"elsewhere":    build.Labels(map[string]string{"rack": "b"}),
			"foreign-kind": consumedBy("HostClaim", "metal3.io/v1alpha1"),
			"other-group":  consumedBy("Metal3Machine", "example.com/v1"),
			"external": stage.With(func(host *bmov1alpha1.BareMetalHost) {
				host.Spec.ExternallyProvisioned = true
			}),
		} {
			w.host(ctx, name, rack, option)
		}
		before := w.hosts(ctx)
		w.start()
		w.machine(ctx, "machine", build.Selecting(map[string]string{"rack": "a"}))
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.NoHostAvailableReason,
			"14 hosts: 4 claimed, 2 marked unhealthy (unhealthy and 1 more: remove annotation capm3.metal3.io/unhealthy "+
				"after the repair), 1 detached (detached: remove annotation baremetalhost.metal3.io/detached), "+
				"1 externally provisioned, 1 in error (in-error), 1 in use without a consumer, 1 not available yet, "+
				"1 not matching selector rack=a, 1 paused (paused: remove annotation baremetalhost.metal3.io/paused), "+
				"1 reserved for another owner (reserved: label infrastructure.cluster.x-k8s.io/node-reuse=md-others; "+
				"to release the host, remove the label)"))
		Expect(w.getMachine(ctx, Default, "machine").Annotations).NotTo(HaveKey(infrav1.HostAnnotation))
		Expect(w.hosts(ctx)).To(Equal(before), "a host was written")
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "machine")).To(ConsistOf(infrav1.NoHostAvailableReason))
		}).Should(Succeed())
	})

	It("reports a namespace without hosts", func(ctx context.Context) {
		w := s.world(ctx)
		w.start()
		w.machine(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.NoHostAvailableReason,
			"No BareMetalHosts in namespace "+w.namespace+": create them there"))
		w.host(ctx, "host")
		Expect(w.associated(ctx, "machine")).To(Equal("host"))
	})

	It("is requeued by a host that becomes free", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.State(bmov1alpha1.StateInspecting))
		w.start()
		w.machine(ctx, "first")
		w.eventually(ctx, "first", infrav1.HostAssociatedCondition,
			stage.IsFalseBecause(infrav1.NoHostAvailableReason, "1 host: 1 not available yet"))
		w.machine(ctx, "second")
		w.eventually(ctx, "second", infrav1.HostAssociatedCondition,
			stage.IsFalseBecause(infrav1.NoHostAvailableReason, "1 host: 1 not available yet"))

		changeStatus(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateAvailable
		})
		Expect(w.associated(ctx, "first")).To(Equal("host"), "the one that came first")
		Expect(w.hostsOf(ctx, Default, "second")).To(BeEmpty())

		w.remove(ctx, "first")
		w.gone(ctx, "first")
		Expect(w.associated(ctx, "second")).To(Equal("host"))
	})
}

func consumedBy(kind, apiVersion string) build.ObjectOption {
	return stage.With(func(host *bmov1alpha1.BareMetalHost) {
		host.Spec.ConsumerRef = &corev1.ObjectReference{
			APIVersion: apiVersion, Kind: kind, Namespace: host.Namespace, Name: "other",
		}
	})
}
