package rbac_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/installation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// clusterName is the Cluster of the stories.
const clusterName = "cluster"

// oldVersion is the version from which objects are migrated.
const oldVersion = "v1beta1"

// describeLife has the life of a cluster with one machine and all objects that require permissions: a host, data, a
// control plane with node reuse, bootstrap data without a label, a template with a cleaning mode, an Ironic endpoint
// with credentials of the user.
func describeLife(i *world) {
	It("reports a cluster as ready and as paused", func(ctx context.Context) {
		cluster := build.Cluster(clusterName, build.InNamespace(i.namespace), build.InfrastructureReady())
		i.create(ctx, cluster)
		i.create(ctx, kubeconfig.GenerateSecret(cluster, []byte(build.SilentKubeconfig)))
		i.create(ctx, build.Metal3Cluster(clusterName, build.InNamespace(i.namespace), build.OwnedBy(cluster),
			build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName}), withIronic()))
		i.eventually(ctx, &infrav1.Metal3Cluster{}, clusterName, infrav1.ReadyCondition, stage.IsTrue())
		i.create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "ironic-credentials"},
			StringData: map[string]string{"username": "ironic", "password": "a-password"},
		})
		i.eventually(ctx, &infrav1.Metal3Cluster{}, clusterName, infrav1.IronicEndpointReadyCondition,
			stage.IsFalseBecause(infrav1.EndpointUnreachableReason, ""))
		i.pause(ctx, true)
		i.eventually(ctx, &infrav1.Metal3Cluster{}, clusterName, infrav1.PausedCondition, stage.IsTrue())
		i.pause(ctx, false)
		i.eventually(ctx, &infrav1.Metal3Cluster{}, clusterName, infrav1.PausedCondition,
			HaveField("Reason", clusterv1.NotPausedReason))
	})

	It("provisions a host", func(ctx context.Context) {
		control := controlPlane(i.namespace)
		i.create(ctx, control)
		i.create(ctx, build.MachineTemplate("template", build.InNamespace(i.namespace), build.NodeReuse(),
			stage.With(func(template *infrav1.Metal3MachineTemplate) {
				template.Spec.Template.Spec.AutomatedCleaningMode = "disabled"
			})))
		i.create(ctx, i.dataTemplate())
		host := build.Host("host", build.InNamespace(i.namespace), claimedByCAPM3(),
			build.Annotations(map[string]string{infrav1.BlockMoveAnnotation: ""}))
		Expect(build.CreateHost(ctx, i.server.Client, host)).To(Succeed())
		owner := build.ControlPlaneMachine("machine", clusterName, build.InNamespace(i.namespace), build.OwnedBy(control))
		i.create(ctx, owner)
		i.create(ctx, build.BootstrapSecret("machine", "", []byte("#cloud-config\n{}\n"), build.InNamespace(i.namespace)))
		i.create(ctx, build.Metal3Machine("machine", clusterName, build.InNamespace(i.namespace), build.OwnedBy(owner),
			build.Annotations(map[string]string{
				clusterv1.TemplateClonedFromNameAnnotation:      "template",
				clusterv1.TemplateClonedFromGroupKindAnnotation: "Metal3MachineTemplate." + infrav1.GroupVersion.Group,
			}), stage.With(func(machine *infrav1.Metal3Machine) {
				machine.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "data-template"}
			})))
		i.eventually(ctx, &infrav1.Metal3Machine{}, "machine", infrav1.DataReadyCondition,
			stage.IsFalseBecause(infrav1.WaitingForDataReason, ""))
		i.render(ctx)
		i.eventually(ctx, &infrav1.Metal3Machine{}, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		Expect(i.server.Client.Get(ctx, i.key("machine-ironic-userdata"), &corev1.Secret{})).To(Succeed())
		Expect(i.server.Client.Get(ctx, i.key("host"), host)).To(Succeed())
		Expect(host.OwnerReferences).To(BeEmpty())
	})

	It("reboots the host of an unhealthy machine, and marks the Machine in the end", func(ctx context.Context) {
		owner := &clusterv1.Machine{}
		Expect(i.server.Client.Get(ctx, i.key("machine"), owner)).To(Succeed())
		request := &infrav1.Metal3Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "machine"}}
		build.OwnedBy(owner)(request)
		i.onManagementNode(ctx, "only-node")
		i.create(ctx, request)
		i.eventually(ctx, request, "machine", infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.ManagementClusterAtRiskReason, ""))
		i.onManagementNode(ctx, "")
		i.eventually(ctx, request, "machine", infrav1.HostRebootedCondition, stage.IsTrue())
		stage.Change(ctx, i.server.Client, i.key("machine"), request, func(request *infrav1.Metal3Remediation) {
			request.Annotations[infrav1.RemediationAnnotation] = `{"phase":"Deleting machine"}`
		})
		i.eventually(ctx, request, "machine", infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.RetriesExhaustedReason, ""))
		Expect(i.server.Client.Delete(ctx, request)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(i.server.Client.Get(ctx, i.key("machine"), request)).NotTo(Succeed())
		}).Should(Succeed())
	})

	It("releases the host and reserves it for the next machine", func(ctx context.Context) {
		Expect(i.server.Client.Delete(ctx, build.Metal3Machine("machine", clusterName, build.InNamespace(i.namespace)))).
			To(Succeed())
		Eventually(func(g Gomega) {
			host := &bmov1alpha1.BareMetalHost{}
			g.Expect(i.server.Client.Get(ctx, i.key("host"), host)).To(Succeed())
			g.Expect(host.Labels).To(HaveKeyWithValue(infrav1.NodeReuseLabel, "cp-control"))
			err := i.server.Client.Get(ctx, i.key("machine"), &infrav1.Metal3Machine{})
			g.Expect(err).To(HaveOccurred())
			g.Expect(client.IgnoreNotFound(err)).To(Succeed())
			err = i.server.Client.Get(ctx, i.key("data-template-0"), &infrav1.Metal3Data{})
			g.Expect(err).To(HaveOccurred())
			g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		}).Should(Succeed())
	})

	It("serves metrics only to users who may read them", func(ctx context.Context) {
		installation.Role(ctx, i.server, "metrics_reader_role.yaml")
		installation.Bind(ctx, i.server, "metrics-reader",
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: i.namespace, Name: "reader"})
		// The certificate is self-signed.
		insecure := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}}
		for name, want := range map[string]int{"reader": http.StatusOK, "outsider": http.StatusForbidden} {
			token := i.token(ctx, name)
			Expect(installation.Status(ctx, insecure, "https://"+i.manager.Metrics+"/metrics", token)).To(Equal(want), name)
		}
	})

	It("offers HTTP/2 neither for webhooks nor for metrics", func(ctx context.Context) {
		dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}}
		webhooks := net.JoinHostPort(i.server.Webhook.Host, strconv.Itoa(i.server.Webhook.Port))
		for _, address := range []string{webhooks, i.manager.Metrics} {
			connection, err := dialer.DialContext(ctx, "tcp", address)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(connection.Close)
			encrypted, isTLS := connection.(*tls.Conn)
			Expect(isTLS).To(BeTrue())
			Expect(encrypted.ConnectionState().NegotiatedProtocol).To(Equal("http/1.1"), address)
		}
	})
}

// onManagementNode sets a control-plane node of this cluster as the node of the Machine. Empty means none.
func (i *world) onManagementNode(ctx context.Context, name string) {
	GinkgoHelper()
	providerID := "metal3://" + i.namespace + "/host/machine"
	if name != "" {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""},
		}}
		node.Spec.ProviderID = providerID
		i.create(ctx, node)
	}
	stage.Change(ctx, i.server.Client, i.key("machine"), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
		machine.Spec.ProviderID = providerID
	})
	stage.ChangeStatus(ctx, i.server.Client, i.key("machine"), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
		machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: name}
	})
}

// describeUpgrade has the story of objects that are stored in an old version.
func describeUpgrade(i *world) {
	It("rewrites objects that are stored in an old version", func(ctx context.Context) {
		for _, object := range i.oneOfEach() {
			Expect(client.IgnoreAlreadyExists(i.server.Client.Create(ctx, object))).To(Succeed())
			i.age(ctx, object)
		}
		var definitions apiextensionsv1.CustomResourceDefinitionList
		Expect(i.server.Client.List(ctx, &definitions)).To(Succeed())
		for _, definition := range definitions.Items {
			if definition.Spec.Group == infrav1.GroupVersion.Group {
				i.migrate(ctx, &definition)
			}
		}
	})
}

// describeOwners has the story of an installation without the additional permission in the documents.
func describeOwners(i *world) {
	It("may not change owners without the right to delete", func(ctx context.Context) {
		const user = "without"
		installation.Bind(ctx, i.server, i.role.Name, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
		config, err := i.server.User(user)
		Expect(err).NotTo(HaveOccurred())
		without, err := client.New(config, client.Options{Scheme: build.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		owner := &infrav1.Metal3Cluster{}
		Expect(i.server.Client.Get(ctx, i.key(clusterName), owner)).To(Succeed())
		made := func(name string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name}}
		}
		control := func(secret *corev1.Secret, blocks bool) *corev1.Secret {
			Expect(controllerutil.SetControllerReference(owner, secret, build.Scheme(),
				controllerutil.WithBlockOwnerDeletion(blocks))).To(Succeed())
			return secret
		}
		Eventually(func() error { return without.Create(ctx, control(made("made"), false)) }).Should(Succeed())
		Expect(without.Create(ctx, control(made("blocks"), true))).To(
			MatchError(ContainSubstring("cannot set blockOwnerDeletion")))
		secret := made("owned-later")
		i.create(ctx, secret)
		patch := client.MergeFrom(secret.DeepCopy())
		Expect(without.Patch(ctx, control(secret, false), patch)).To(
			MatchError(ContainSubstring("cannot set an ownerRef on a resource you can't delete")))
	})
}

// claimedByCAPM3 sets the Metal3Machine as owner of the host.
func claimedByCAPM3() build.ObjectOption {
	return func(host metav1.Object) {
		host.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: infrav1.GroupVersion.Group + "/" + oldVersion, Kind: "Metal3Machine", Name: "machine", UID: "before",
		}})
	}
}

// age writes an object in the old version, so that its managed fields name that version.
func (i *world) age(ctx context.Context, object client.Object) {
	GinkgoHelper()
	kind, err := i.server.Client.GroupVersionKindFor(object)
	Expect(err).NotTo(HaveOccurred())
	old := &unstructured.Unstructured{}
	old.SetGroupVersionKind(kind.GroupKind().WithVersion(oldVersion))
	stage.Change(ctx, i.server.Client, client.ObjectKeyFromObject(object), old, func(old *unstructured.Unstructured) {
		old.SetLabels(map[string]string{"example.com/written-in": oldVersion})
	})
}

// migrate disables the old version of a CRD with stored objects, and waits until none is stored in it.
func (i *world) migrate(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) {
	GinkgoHelper()
	key := client.ObjectKeyFromObject(definition)
	stage.ChangeStatus(ctx, i.server.Client, key, definition, func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Status.StoredVersions = []string{oldVersion, infrav1.GroupVersion.Version}
	})
	stage.Change(ctx, i.server.Client, key, definition, func(d *apiextensionsv1.CustomResourceDefinition) {
		for i := range d.Spec.Versions {
			d.Spec.Versions[i].Served = d.Spec.Versions[i].Name != oldVersion
		}
	})
	Eventually(func(g Gomega) {
		g.Expect(i.server.Client.Get(ctx, key, definition)).To(Succeed())
		g.Expect(definition.Status.StoredVersions).To(Equal([]string{infrav1.GroupVersion.Version}), definition.Name)
		g.Expect(definition.Annotations).To(HaveKeyWithValue(clusterv1.CRDMigrationObservedGenerationAnnotation,
			strconv.FormatInt(definition.Generation, 10)))
	}).Should(Succeed())
}

// oneOfEach returns objects of all kinds.
func (i *world) oneOfEach() []client.Object {
	// The API server tracks the fields of an object only if it was created with any.
	meta := metav1.ObjectMeta{Namespace: i.namespace, Name: "old", Labels: map[string]string{"example.com/a": "field"}}
	namespace := build.InNamespace(i.namespace)
	infra := build.Metal3Cluster("old", namespace)
	return []client.Object{
		infra,
		&infrav1.Metal3ClusterTemplate{ObjectMeta: meta, Spec: infrav1.Metal3ClusterTemplateSpec{
			Template: infrav1.Metal3ClusterTemplateResource{Spec: infra.Spec},
		}},
		build.Metal3Machine("old", "other", namespace),
		build.MachineTemplate("old", namespace),
		&infrav1.Metal3Data{
			ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "old-1"},
			Spec: infrav1.Metal3DataSpec{
				Index: ptr.To[int32](1), Template: &infrav1.Metal3ObjectRef{Name: "old"},
				Claim: &infrav1.Metal3ObjectRef{Name: "old"},
			},
		},
		&infrav1.Metal3DataClaim{ObjectMeta: meta, Spec: infrav1.Metal3DataClaimSpec{
			Template: &infrav1.Metal3ObjectRef{Name: "data-template"},
		}},
		&infrav1.Metal3DataTemplate{ObjectMeta: meta},
		&infrav1.Metal3Remediation{ObjectMeta: meta},
		&infrav1.Metal3RemediationTemplate{ObjectMeta: meta},
	}
}

func (i *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: i.namespace, Name: name}
}

func (i *world) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(build.CreateWithStatus(ctx, i.server.Client, object)).To(Succeed())
}

// reporting is an object with conditions.
type reporting interface {
	client.Object
	GetConditions() []metav1.Condition
}

// eventually waits until a condition matches.
func (i *world) eventually(
	ctx context.Context, object reporting, name, conditionType string, want types.GomegaMatcher,
) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(i.server.Client.Get(ctx, i.key(name), object)).To(Succeed())
		g.Expect(object.GetConditions()).To(stage.HaveCondition(conditionType, want))
	}).Should(Succeed())
}

func (i *world) pause(ctx context.Context, paused bool) {
	GinkgoHelper()
	stage.Change(ctx, i.server.Client, i.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = &paused
	})
}

// render creates the addresses that the data of the machine requires.
func (i *world) render(ctx context.Context) {
	GinkgoHelper()
	i.eventually(ctx, &infrav1.Metal3Data{}, "data-template-0", infrav1.AddressesReadyCondition,
		stage.IsFalseBecause(infrav1.PoolMissingReason, "refers to IPPool pool, which does not exist"))
	Expect(managers.StartAddressManager(ctx, i.server, i.namespace)).To(Succeed())
	i.create(ctx, &metal3ipamv1.IPPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "pool"},
		Spec: metal3ipamv1.IPPoolSpec{NamePrefix: "pool", Prefix: 24, Pools: []metal3ipamv1.Pool{
			{Start: ptr.To[metal3ipamv1.IPAddressStr]("10.0.0.1"), End: ptr.To[metal3ipamv1.IPAddressStr]("10.0.0.9")},
		}},
	})
	// The story acts as the provider of the other pool.
	claim := &ipamv1.IPAddressClaim{}
	Eventually(func() error {
		return i.server.Client.Get(ctx, i.key("data-template-0-other"), claim)
	}).Should(Succeed())
	i.create(ctx, &ipamv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "other-10-0-1-1"},
		Spec: ipamv1.IPAddressSpec{
			Address: "10.0.1.1", Prefix: ptr.To[int32](24), PoolRef: claim.Spec.PoolRef,
			ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name},
		},
	})
	stage.ChangeStatus(ctx, i.server.Client, i.key(claim.Name), claim, func(claim *ipamv1.IPAddressClaim) {
		claim.Status.AddressRef.Name = "other-10-0-1-1"
	})
}

// dataTemplate returns a template with addresses of both APIs.
func (i *world) dataTemplate() *infrav1.Metal3DataTemplate {
	return &infrav1.Metal3DataTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "data-template"},
		Spec: infrav1.Metal3DataTemplateSpec{MetaData: &infrav1.MetaData{IPAddressesFromPool: []infrav1.FromPool{
			{Key: "a", Name: "pool"},
			{Key: "b", Name: "other", APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool"},
		}}},
	}
}

// token creates a service account and returns its token.
func (i *world) token(ctx context.Context, name string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name}}
	i.create(ctx, account)
	request := &authenticationv1.TokenRequest{}
	Expect(i.server.Client.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// withIronic creates a Metal3Cluster with an Ironic endpoint without a holder, and with credentials of the user.
func withIronic() build.ObjectOption {
	return stage.With(func(infra *infrav1.Metal3Cluster) {
		infra.Spec.Ironic = &infrav1.Ironic{
			Endpoint: infrav1.IronicEndpoint{
				VirtualIPs: []string{"192.0.2.2"}, CIDRs: []string{"192.0.2.0/24"}, Interface: "eth0",
			},
			CredentialsRef: &corev1.LocalObjectReference{Name: "ironic-credentials"},
		}
	})
}

func controlPlane(namespace string) *controlplanev1.KubeadmControlPlane {
	return &controlplanev1.KubeadmControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "control"},
		Spec: controlplanev1.KubeadmControlPlaneSpec{
			Replicas: ptr.To[int32](1), Version: "v1.36.0",
			MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{
				Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{
					InfrastructureRef: clusterv1.ContractVersionedObjectReference{
						APIGroup: infrav1.GroupVersion.Group, Kind: "Metal3MachineTemplate", Name: "template",
					},
				},
			},
		},
	}
}
