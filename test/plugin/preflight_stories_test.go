package plugin_test

import (
	"context"
	"maps"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/handover"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeEmptyTarget has the stories of a target without any component.
func describeEmptyTarget(c *clusters) {
	It("names all components that the target lacks", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		Expect(c.run(ctx, namespace, "preflight")).To(end(1,
			"the manager of this provider is not installed",
			"CustomResourceDefinition baremetalhosts.metal3.io is missing",
			"CustomResourceDefinition metal3clusters.infrastructure.cluster.x-k8s.io is missing",
			"CustomResourceDefinition clusters.cluster.x-k8s.io is missing",
			"provider infrastructure-metal3 is missing: install v1.15.0 or newer",
		))
	})

	It("shows a target without the kinds as empty", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		Expect(c.run(ctx, namespace, "status")).To(end(0, namespace+"/cluster", "TARGET"))
		Expect(c.run(ctx, namespace, "status --all-namespaces")).To(end(0, namespace+"/cluster", "TARGET"))
	})

	It("demotes the Ironic of a cluster without hosts", func(ctx context.Context) {
		home := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		home.arm(ctx)
		Expect(c.target.Client.Create(ctx, build.Namespace(handover.Namespace))).To(Succeed())
		key := ironicIn(ctx, c.target)
		Expect(runOn(ctx, c.target.Kubeconfig, c.source.Kubeconfig, home.namespace, "demote --dry-run")).To(end(0,
			"Would scale Deployment "+key.String()+" from 1 to 0"))
	})

	It("returns an error for a source without the kinds", func(ctx context.Context) {
		for _, command := range []string{"preflight", "status", "status -A"} {
			Expect(runOn(ctx, c.target.Kubeconfig, "", "metal3", command)).To(end(2,
				"reading the source cluster", "--kubeconfig"), command)
		}
	})
}

// describePreflight has the stories before a move.
func describePreflight(c *clusters) {
	It("reports that a move would succeed", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		Expect(c.run(ctx, namespace, "preflight")).To(end(0, "Ready: clusterctl move of namespace "+namespace,
			"Read 1 Cluster, 1 Machine and 1 host"))
		told := c.run(ctx, namespace, "preflight --output json")
		Expect(told).To(end(0))
		Expect(told.decode()).To(And(HaveKeyWithValue("ready", true), HaveKeyWithValue("obstacles", BeEmpty())))
		Expect(runOn(ctx, c.source.Kubeconfig, "", namespace, "preflight")).To(end(0, "the target was not checked"))
	})

	It("reports that there is nothing to move in an empty or missing namespace", func(ctx context.Context) {
		Expect(c.run(ctx, stage.Namespace(ctx, c.source), "preflight")).To(end(1, "name another namespace with --namespace"))
		Expect(c.run(ctx, "nowhere", "preflight")).To(end(1, "name another namespace with --namespace"))
	})

	It("names the other namespaces that depend on the Ironic of the source", func(ctx context.Context) {
		namespace, dependant := stage.Namespace(ctx, c.source), stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		other := world{client: c.source.Client, namespace: dependant}
		other.leaveNoHosts()
		other.create(ctx, build.Host("apart", build.Available()))
		Expect(c.run(ctx, namespace, "preflight")).To(end(0, "namespace "+dependant+
			" of the management cluster has 1 hosts that depend on the Ironic of clusterID "+clusterID))
	})

	It("refuses if both sides are the same cluster", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		Expect(runOn(ctx, c.source.Kubeconfig, c.source.Kubeconfig, namespace, "preflight")).To(end(1,
			"it is the same cluster as the source"))
	})

	It("describes the target in one line, and requires a BMO that runs", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		scale := func(ctx context.Context, available int32) {
			stage.ChangeStatus(ctx, c.target.Client, operatorKey(), &appsv1.Deployment{}, func(operator *appsv1.Deployment) {
				operator.Status.ReadyReplicas, operator.Status.AvailableReplicas = available, available
			})
		}
		scale(ctx, 0)
		DeferCleanup(func(ctx context.Context) { scale(ctx, 1) })
		Expect(c.run(ctx, namespace, "preflight")).To(end(1,
			"BMO does not run: Deployment "+operatorKey().String()+" has 0 of 1 replicas available"))
		scale(ctx, 1)
		Expect(c.run(ctx, namespace, "preflight")).To(end(0, "target: BMO: "+operatorKey().String()+" (1 replica available), "+
			"its Ironic endpoint: https://192.0.2.2:6385; CustomResourceDefinitions: "))
	})

	It("names fields of hosts that the target would drop", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		w := settle(ctx, c.source, namespace)
		var spec map[string]apiextensionsv1.JSONSchemaProps
		definition := func(ctx context.Context, edit func(fields map[string]apiextensionsv1.JSONSchemaProps)) {
			stage.Change(ctx, c.target.Client, client.ObjectKey{Name: pivot.HostDefinition},
				&apiextensionsv1.CustomResourceDefinition{}, func(hosts *apiextensionsv1.CustomResourceDefinition) {
					edit(hosts.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties)
				})
		}
		definition(ctx, func(fields map[string]apiextensionsv1.JSONSchemaProps) {
			spec = maps.Clone(fields)
			delete(fields, "disablePowerOff")
		})
		DeferCleanup(func(ctx context.Context) {
			definition(ctx, func(fields map[string]apiextensionsv1.JSONSchemaProps) { maps.Copy(fields, spec) })
		})
		Expect(c.run(ctx, namespace, "preflight")).To(end(0))
		var hosts bmov1alpha1.BareMetalHostList
		Expect(w.client.List(ctx, &hosts, client.InNamespace(namespace))).To(Succeed())
		stage.Change(ctx, w.client, client.ObjectKeyFromObject(&hosts.Items[0]), &bmov1alpha1.BareMetalHost{},
			func(host *bmov1alpha1.BareMetalHost) { host.Spec.DisablePowerOff = true })
		for _, command := range []string{"preflight", "run --yes"} {
			Expect(c.run(ctx, namespace, command)).To(end(1, "CustomResourceDefinition baremetalhosts.metal3.io lacks fields that "+
				"hosts use: spec.disablePowerOff (BareMetalHost "+hosts.Items[0].Name+")"), command)
		}
	})

	It("names hosts with an image and without a Metal3Machine", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		w := settle(ctx, c.source, namespace)
		own := build.Host("own", build.Provisioned())
		w.create(ctx, own)
		w.create(ctx, build.ControllerSecret(own, build.OwnedBy(own)))
		Expect(c.run(ctx, namespace, "preflight")).To(end(0, "host own runs an image and has no Metal3Machine: it moves unchanged"))
	})

	DescribeTable("names the obstacle in the source",
		func(ctx context.Context, edit func(context.Context, world), want string) {
			namespace := stage.Namespace(ctx, c.source)
			w := settle(ctx, c.source, namespace)
			edit(ctx, w)
			Expect(c.run(ctx, namespace, "preflight")).To(end(1, "Not ready", want))
		},
		Entry("a busy host", func(ctx context.Context, w world) {
			w.create(ctx, build.Host("new", build.State(bmov1alpha1.StateInspecting)))
		}, "host new is inspecting: wait until it is done"),
		Entry("a host whose owner does not move", func(ctx context.Context, w world) {
			keeper := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "keeper"}}
			w.create(ctx, keeper)
			w.create(ctx, build.Host("kept", build.OwnedBy(keeper)))
		}, "host kept is owned by ConfigMap keeper"),
		Entry("a Machine without a node", func(ctx context.Context, w world) {
			w.create(ctx, build.Machine("young", clusterName))
		}, "Machine young has no node: wait for it, or delete it"),
		Entry("a Machine that is being deleted", func(ctx context.Context, w world) {
			going := build.Machine("going", clusterName, build.Finalizers("example.com/stay"))
			going.Status.NodeRef.Name = "node-9"
			w.create(ctx, going)
			Expect(w.client.Delete(ctx, going)).To(Succeed())
		}, "Machine going is being deleted"),
		Entry("a host whose Metal3Machine does not exist", func(ctx context.Context, w world) {
			w.create(ctx, build.Host("stranded", build.Provisioned(),
				build.Consumed(build.Metal3Machine("gone", clusterName, build.InNamespace(w.namespace)))))
		}, "BareMetalHost stranded is claimed by Metal3Machine gone, which does not exist: remove spec.consumerRef"),
		Entry("a Metal3Machine without an ownerReference", func(ctx context.Context, w world) {
			w.create(ctx, build.Metal3Machine("early", clusterName))
		}, "Metal3Machine early has no ownerReference"),
		Entry("a Metal3Machine that lost its host", func(ctx context.Context, w world) {
			stage.ChangeStatus(ctx, w.client, w.key("machine"), &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
				lost := condition(infrav1.HostAssociatedCondition)
				lost.Status, lost.Reason, lost.Message = metav1.ConditionFalse, infrav1.HostLostReason, "Its host is gone."
				machine.Status.Conditions = []metav1.Condition{lost}
			})
		}, "Metal3Machine machine lost its host, which a move does not restore: Its host is gone."),
		Entry("a control plane that is scaling", func(ctx context.Context, w world) {
			stage.ChangeStatus(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
				cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
					DesiredReplicas: ptr.To[int32](3), Replicas: ptr.To[int32](3), AvailableReplicas: ptr.To[int32](1),
				}
			})
		}, "the control plane of Cluster cluster has 3 replicas, 1 of them available, and has to have 3"),
		Entry("a Metal3Remediation that is running", func(ctx context.Context, w world) {
			w.create(ctx, &infrav1.Metal3Remediation{ObjectMeta: metav1.ObjectMeta{
				Name: "repair", Finalizers: []string{infrav1.RemediationFinalizer},
			}})
		}, "Metal3Remediation repair is running"),
		Entry("a Cluster that is paused", func(ctx context.Context, w world) {
			stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
				cluster.Spec.Paused = ptr.To(true)
			})
		}, "Cluster cluster is paused"),
		Entry("a Cluster whose control plane is not initialized", func(ctx context.Context, w world) {
			stage.ChangeStatus(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
				cluster.Status.Conditions[0].Status = metav1.ConditionFalse
			})
		}, "the control plane of Cluster cluster is not initialized"),
		Entry("a Metal3Cluster without block-move", func(ctx context.Context, w world) {
			w.changeInfra(ctx, func(infra *infrav1.Metal3Cluster) { infra.Annotations = nil })
		}, "Metal3Cluster cluster lacks annotation clusterctl.cluster.x-k8s.io/block-move"),
		Entry("a foreign Ironic", func(ctx context.Context, w world) {
			w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) {
				infra.Status.Conditions[0].Status, infra.Status.Conditions[0].Message = metav1.ConditionFalse, "Conductor x answers"
			})
		}, "Ironic endpoint: Conductor x answers"),
		Entry("a conflicting user of the VIP", func(ctx context.Context, w world) {
			w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) {
				taken := condition(infrav1.IronicEndpointUniqueCondition)
				taken.Status, taken.Reason = metav1.ConditionFalse, infrav1.VirtualIPTakenReason
				taken.Message = "Host host had 192.0.2.2 when it was inspected: remove the address from it"
				infra.Status.Conditions = append(infra.Status.Conditions, taken)
			})
		}, "source    Ironic endpoint: Host host had 192.0.2.2 when it was inspected: remove the address from it"),
		Entry("a node without the pods of the endpoint", func(ctx context.Context, w world) {
			w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) { infra.Status.Ironic.Nodes[0].ConfigHash = "" })
		}, "node node-0 does not run the pods of the Ironic endpoint"),
		Entry("a control plane whose nodes are unknown", func(ctx context.Context, w world) {
			w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) { infra.Status.Ironic.Nodes = nil })
		}, "the manager has seen no node of Metal3Cluster cluster"),
		Entry("a Secret of a host, without an owner", func(ctx context.Context, w world) {
			w.create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "network"}})
			host := build.Host("other", build.Available())
			host.Spec.PreprovisioningNetworkDataName = "network"
			w.create(ctx, host)
		}, "Secret network of host other has no owner"),
		Entry("a Secret of a BMCEventSubscription, without an owner", func(ctx context.Context, w world) {
			w.create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "headers"}})
			w.create(ctx, &bmov1alpha1.BMCEventSubscription{
				ObjectMeta: metav1.ObjectMeta{Name: "events"},
				Spec: bmov1alpha1.BMCEventSubscriptionSpec{
					HostName: "host", HTTPHeadersRef: &corev1.SecretReference{Namespace: w.namespace, Name: "headers"},
				},
			})
		}, "Secret headers of BMCEventSubscription events has no owner and would stay behind"),
		Entry("a Secret of a HostClaim, without an owner", func(ctx context.Context, w world) {
			w.create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "user"}})
			w.create(ctx, &bmov1alpha1.HostClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "claim"},
				Spec:       bmov1alpha1.HostClaimSpec{UserData: &corev1.SecretReference{Namespace: w.namespace, Name: "user"}},
			})
		}, "Secret user of HostClaim claim has no owner and would stay behind"),
		Entry("an obstacle that only ReadyForMove has", func(ctx context.Context, w world) {
			w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) {
				infra.Status.Conditions[1].Status, infra.Status.Conditions[1].Message = metav1.ConditionFalse, "node x is bare"
			})
		}, "ReadyForMove of Metal3Cluster cluster is not true: node x is bare"),
	)

	It("names a CRD without its label, and a manager that does not run", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		hosts := client.ObjectKey{Name: "baremetalhosts.metal3.io"}
		relabel := func(ctx context.Context, edit func(map[string]string)) {
			stage.Change(ctx, c.source.Client, hosts, &apiextensionsv1.CustomResourceDefinition{},
				func(definition *apiextensionsv1.CustomResourceDefinition) { edit(definition.Labels) })
		}
		relabel(ctx, func(labels map[string]string) { delete(labels, infrav1.MoveHierarchyLabel) })
		DeferCleanup(func(ctx context.Context) {
			relabel(ctx, func(labels map[string]string) { labels[infrav1.MoveHierarchyLabel] = "" })
		})
		available(ctx, c.source, 0)
		DeferCleanup(func(ctx context.Context) { available(ctx, c.source, 1) })
		Expect(c.run(ctx, namespace, "preflight")).To(end(1,
			"CustomResourceDefinition baremetalhosts.metal3.io: clusterctl.cluster.x-k8s.io/move-hierarchy is missing",
			"Deployment capm3-system/capm3-controller-manager has 0 of 1 replicas available"))
	})

	It("names a kind of BMO that clusterctl does not discover, and has objects in the namespace", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		racks := providerDefinition()
		racks.Name, racks.Spec.Group = "racks.metal3.io", "metal3.io"
		racks.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: "Rack", Plural: "racks"}
		racks.Annotations = map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"}
		Expect(c.source.Client.Create(ctx, racks)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(c.source.Client.Delete(ctx, racks)).To(Succeed())
			// It ends after its objects. A preflight in between would miss the kind.
			Eventually(func() bool {
				return apierrors.IsNotFound(c.source.Client.Get(ctx, client.ObjectKeyFromObject(racks), racks))
			}).Should(BeTrue())
		})
		Eventually(func(g Gomega) {
			g.Expect(c.run(ctx, namespace, "preflight")).To(end(0))
		}).Should(Succeed(), "no object would stay behind")
		rack := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "metal3.io/v1alpha3", "kind": "Rack"}}
		rack.SetNamespace(namespace)
		rack.SetName("rack")
		Eventually(func() error { return c.source.Client.Create(ctx, rack) }).Should(Succeed())
		Expect(c.run(ctx, namespace, "preflight")).To(end(1, "CustomResourceDefinition racks.metal3.io has no label"))
	})

	It("names a manager of the target that does not run, and an older one", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		available(ctx, c.target, 0)
		DeferCleanup(func(ctx context.Context) { available(ctx, c.target, 1) })
		revise(ctx, c.target, "v1.14.0")
		DeferCleanup(func(ctx context.Context) { revise(ctx, c.target, "v1.15.0") })
		Expect(c.run(ctx, namespace, "preflight")).To(end(1,
			"target    the manager of this provider does not run",
			"provider infrastructure-metal3 has version v1.14.0, in the source v1.15.0"))
	})

	It("names conflicting objects in the target, and accepts copies of an earlier move", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
		left := settle(ctx, c.target, namespace)
		Expect(c.run(ctx, namespace, "preflight")).To(end(1, "BareMetalHost host is there already, with an older status"))
		stage.ChangeStatus(ctx, c.target.Client, left.key("host"), &bmov1alpha1.BareMetalHost{},
			func(host *bmov1alpha1.BareMetalHost) { host.Status.LastUpdated = nil })
		Expect(c.run(ctx, namespace, "preflight")).To(end(0, "of an earlier move are in the target"))

		machine := &clusterv1.Machine{}
		stage.Change(ctx, c.target.Client, left.key("machine"), machine, func(machine *clusterv1.Machine) {
			machine.Labels = map[string]string{clusterv1.ClusterNameLabel: "other"}
		})
		stage.Change(ctx, c.target.Client, left.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.BMC.Address = "ipmi://elsewhere.example"
		})
		Expect(c.run(ctx, namespace, "preflight")).To(end(1,
			"Machine machine is there already, belongs to Cluster other",
			"BareMetalHost host is there already, has another spec.bmc.address"))
	})

	It("returns an error when an API server does not answer or refuses", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		settle(ctx, c.source, namespace)
		line := stage.NewLine(c.target.Config)
		file, err := c.target.WriteKubeconfig("line", line.Config)
		Expect(err).NotTo(HaveOccurred())
		Expect(runOn(ctx, c.source.Kubeconfig, file, namespace, "preflight")).To(end(0, "Ready"))
		line.Cut()
		Expect(runOn(ctx, c.source.Kubeconfig, file, namespace, "preflight")).To(end(2,
			"reading the target cluster", "connection refused", "check that --to-kubeconfig names it"))
		Expect(runOn(ctx, file, "", namespace, "preflight")).To(end(2, "reading the source cluster"))

		nobody := userFile(c.source, "nobody")
		Expect(runOn(ctx, nobody, "", namespace, "preflight")).To(end(2, "forbidden", "that you may read it"))
	})
}

// userFile returns the kubeconfig of a user without any permission.
func userFile(server *env.Server, name string) string {
	GinkgoHelper()
	config, err := server.User(name)
	Expect(err).NotTo(HaveOccurred())
	file, err := server.WriteKubeconfig(name, config)
	Expect(err).NotTo(HaveOccurred())
	return file
}

// available sets the number of available replicas of the manager.
func available(ctx context.Context, server *env.Server, count int32) {
	GinkgoHelper()
	key := client.ObjectKey{Namespace: managerNamespace, Name: "capm3-controller-manager"}
	stage.ChangeStatus(ctx, server.Client, key, &appsv1.Deployment{}, func(manager *appsv1.Deployment) {
		manager.Status.ReadyReplicas, manager.Status.AvailableReplicas = count, count
	})
}

// revise sets the version that clusterctl has recorded.
func revise(ctx context.Context, server *env.Server, version string) {
	GinkgoHelper()
	stage.Change(ctx, server.Client, client.ObjectKey{Namespace: managerNamespace, Name: "infrastructure-metal3"},
		provider(""), func(installed *unstructured.Unstructured) { installed.Object["version"] = version })
}
