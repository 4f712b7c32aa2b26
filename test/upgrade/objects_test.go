package upgrade_test

import (
	"context"
	"fmt"
	"os"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/cluster-api/util/kubeconfig"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	clusterName = "cluster"

	// running is the number of machines with a Node. One more waits for its data.
	running = 19

	// Machines that differ from the others.
	siteNetwork = "machine-00" // its host has networkData of the administrator
	ownNetwork  = "machine-01" // it sets networkData itself
	guarded     = "machine-02" // it is an owner of its host
	rebooted    = "machine-16" // its host is in the middle of a remediation
	rendered    = "machine-18" // its meta-data is rendered from a Metal3DataTemplate, and it has an address
	waiting     = "machine-19" // it waits for its Metal3DataTemplate

	// lateTemplate is the Metal3DataTemplate that does not exist yet.
	lateTemplate = "late"
)

func machineName(i int) string       { return fmt.Sprintf("machine-%02d", i) }
func hostOf(machine string) string   { return "host-of-" + machine }
func secretOf(machine string) string { return machine + "-bootstrap" }

// populate creates the objects of a cluster with 20 machines as CAPM3 writes them.
func (w *world) populate(ctx context.Context) {
	GinkgoHelper()
	cluster := build.Cluster(clusterName, build.InNamespace(w.namespace), build.InfrastructureReady(),
		build.Endpoint(build.EndpointHost, build.EndpointPort),
		stage.With(func(cluster *clusterv1.Cluster) {
			v1beta1conditions.MarkTrue(cluster, clusterv1.InfrastructureReadyV1Beta1Condition)
		}))
	w.create(ctx, cluster)
	w.create(ctx, build.Metal3Cluster(clusterName, build.InNamespace(w.namespace), build.OwnedBy(cluster), ofCluster(),
		build.Finalizers(infrav1.ClusterFinalizer),
		stage.With(func(infra *infrav1.Metal3Cluster) { infra.Status.Deprecated = oldConditions() })))
	path, err := w.server.WriteKubeconfig(w.namespace, w.server.Config)
	Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	w.create(ctx, kubeconfig.GenerateSecret(cluster, content))
	w.create(ctx, dataTemplate(w.namespace, "template"))
	for i := range running {
		w.runningMachine(ctx, machineName(i))
	}
	w.render(ctx, rendered)
	w.claimAddress(ctx, "template-0")
	w.waitingMachine(ctx)
	w.createHost(ctx, build.Host("free", build.InNamespace(w.namespace), build.Available(), blocked()))
	w.createHost(ctx, build.Host("reserved", build.InNamespace(w.namespace), build.Available(), blocked(),
		build.Labels(map[string]string{infrav1.NodeReuseLabel: "md-workers"}),
		stage.With(func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.ConsumerRef = &corev1.ObjectReference{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: w.namespace, Name: clusterName,
			}
		})))
}

// runningMachine creates a Machine with a Node, its Metal3Machine and its host.
func (w *world) runningMachine(ctx context.Context, name string) {
	GinkgoHelper()
	providerID := fmt.Sprintf("metal3://%s/%s/%s", w.namespace, hostOf(name), name)
	w.create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID},
	})
	owner := w.owner(ctx, name, stage.With(func(machine *clusterv1.Machine) {
		machine.Spec.ProviderID = providerID
		machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: name}
	}))
	machine := w.metal3Machine(owner, stage.With(func(machine *infrav1.Metal3Machine) {
		machine.Spec.ProviderID = providerID
		machine.Status.Initialization.Provisioned = ptr.To(true)
		machine.Status.UserData = w.secret(secretOf(name))
		machine.Status.Conditions = conditionsOf(metav1.ConditionTrue, infrav1.DataReadyReason, infrav1.ReadyCondition)
		machine.Status.Deprecated = oldConditions()
		switch name {
		case ownNetwork:
			machine.Spec.NetworkData = w.secret("own-network")
			machine.Status.NetworkData = w.secret("own-network")
		case rendered:
			machine.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "template", Namespace: w.namespace}
			machine.Status.RenderedData = &infrav1.Metal3ObjectRef{Name: "template-0", Namespace: w.namespace}
			machine.Status.MetaData = w.secret(name + "-metadata")
		}
	}))
	w.create(ctx, machine)
	w.createHost(ctx, build.Host(hostOf(name), build.InNamespace(w.namespace), build.Provisioned(), blocked(), ofCluster(),
		build.Consumed(machine), stage.With(func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.UserData = machine.Status.UserData
			host.Spec.MetaData = machine.Status.MetaData
			host.Spec.NetworkData = machine.Status.NetworkData
			switch name {
			case siteNetwork:
				host.Spec.NetworkData = w.secret("site-network")
			case guarded:
				host.Spec.ConsumerRef.APIVersion = "infrastructure.cluster.x-k8s.io/v1beta1"
				host.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine",
					Name: machine.Name, UID: machine.UID, Controller: ptr.To(true),
				}}
			}
		})))
}

// waitingMachine creates a Metal3Machine that has claimed its host and waits for its data.
func (w *world) waitingMachine(ctx context.Context) {
	GinkgoHelper()
	machine := w.metal3Machine(w.owner(ctx, waiting), waitingForData(w.namespace),
		stage.With(func(machine *infrav1.Metal3Machine) { machine.Status.UserData = w.secret(secretOf(waiting)) }))
	w.create(ctx, machine)
	w.createHost(ctx, build.Host(hostOf(waiting), build.InNamespace(w.namespace), build.Available(), blocked(), ofCluster(),
		build.Consumed(machine), stage.With(func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = true })))
	w.create(ctx, dataClaim(machine, lateTemplate))
}

// render creates the data that CAPM3 renders for a machine.
func (w *world) render(ctx context.Context, name string) {
	GinkgoHelper()
	machine := w.machine(ctx, Default, name)
	claim := dataClaim(machine, "template")
	claim.Finalizers = append(claim.Finalizers, infrav1.DataClaimFinalizer)
	claim.Status.RenderedData = machine.Status.RenderedData
	w.create(ctx, claim)
	data := &infrav1.Metal3Data{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "template-0", Labels: machine.Labels,
			Finalizers:      []string{infrav1.DataClaimFinalizer, infrav1.DataFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(claim, infrav1.GroupVersion.WithKind("Metal3DataClaim"))},
		},
		Spec: infrav1.Metal3DataSpec{
			Index: ptr.To[int32](0), MetaData: machine.Status.MetaData,
			Template: &infrav1.Metal3ObjectRef{Name: "template", Namespace: w.namespace},
			Claim:    &infrav1.Metal3ObjectRef{Name: name, Namespace: w.namespace},
		},
		Status: infrav1.Metal3DataStatus{Ready: ptr.To(true)},
	}
	w.create(ctx, data)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: name + "-metadata",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(data, infrav1.GroupVersion.WithKind("Metal3Data"))},
		},
		Type: infrav1.DataSecretType, StringData: map[string]string{"metaData": "name: " + name},
	}
	ofCluster()(secret)
	w.create(ctx, secret)
}

// claimAddress creates the IPClaim of a Metal3Data, as CAPM3 does, and waits for its address.
func (w *world) claimAddress(ctx context.Context, data string) {
	GinkgoHelper()
	w.addressPool(ctx, w.namespace, "pool", "10.0.0.", 24)
	owner := &infrav1.Metal3Data{}
	Expect(w.server.Client.Get(ctx, w.key(data), owner)).To(Succeed())
	claim := &metal3ipamv1.IPClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: data + "-pool", Labels: owner.Labels, Finalizers: []string{infrav1.DataFinalizer},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, infrav1.GroupVersion.WithKind("Metal3Data"))},
	}}
	claim.Spec.Pool = corev1.ObjectReference{Name: "pool", Namespace: w.namespace}
	w.create(ctx, claim)
	Eventually(func(g Gomega) {
		g.Expect(w.server.Client.Get(ctx, w.key(claim.Name), claim)).To(Succeed())
		g.Expect(claim.Status.Address).NotTo(BeNil())
	}).Should(Succeed())
}

// remediate creates a Metal3Remediation whose host CAPM3 has powered off. CAPM3 records the progress in the status, and
// the UID in the annotation of the host.
func (w *world) remediate(ctx context.Context, name string) {
	GinkgoHelper()
	owner := &clusterv1.Machine{}
	Expect(w.server.Client.Get(ctx, w.key(name), owner)).To(Succeed())
	request := &infrav1.Metal3Remediation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: name, Finalizers: []string{infrav1.RemediationFinalizer},
			Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
		},
		Spec: infrav1.Metal3RemediationSpec{Strategy: &infrav1.RemediationStrategy{
			Type: infrav1.RebootRemediation, RetryLimit: 1, TimeoutSeconds: ptr.To[int32](600),
		}},
		Status: infrav1.Metal3RemediationStatus{Phase: infrav1.RemediationRunning, LastRemediated: ptr.To(metav1.Now())},
	}
	build.OwnedBy(owner)(request)
	w.create(ctx, request)
	stage.Change(ctx, w.server.Client, w.key(hostOf(name)), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		key := infrav1.RemediationRebootPrefix + string(request.UID)
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, key, `{"mode":"hard"}`)
	})
	Eventually(func(g Gomega) { g.Expect(w.host(ctx, g, hostOf(name)).Status.PoweredOn).To(BeFalse()) }).Should(Succeed())
}

// owner creates a Machine with bootstrap data.
func (w *world) owner(ctx context.Context, name string, options ...build.MachineOption) *clusterv1.Machine {
	GinkgoHelper()
	options = append(options, build.InNamespace(w.namespace), stage.With(func(machine *clusterv1.Machine) {
		machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: name,
		}
		v1beta1conditions.MarkTrue(machine, clusterv1.BootstrapReadyV1Beta1Condition)
	}))
	machine := build.Machine(name, clusterName, options...)
	w.create(ctx, machine)
	w.create(ctx, build.BootstrapSecret(name, build.CloudConfig, []byte("#cloud-config"),
		build.InNamespace(w.namespace), ofCluster()))
	return machine
}

// metal3Machine returns the Metal3Machine of a Machine as CAPM3 leaves it once it has a host.
func (w *world) metal3Machine(owner *clusterv1.Machine, options ...build.Metal3MachineOption) *infrav1.Metal3Machine {
	return build.Metal3Machine(owner.Name, clusterName, append([]build.Metal3MachineOption{
		build.InNamespace(w.namespace), build.OwnedBy(owner), build.Finalizers(infrav1.MachineFinalizer),
		build.Annotations(map[string]string{infrav1.HostAnnotation: w.namespace + "/" + hostOf(owner.Name)}),
	}, options...)...)
}

func (w *world) secret(name string) *corev1.SecretReference {
	return &corev1.SecretReference{Name: name, Namespace: w.namespace}
}

// conditionsOf returns the conditions that CAPM3 sets.
func conditionsOf(status metav1.ConditionStatus, reason string, more ...string) []metav1.Condition {
	list := []metav1.Condition{{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: "NotPaused"}}
	for _, conditionType := range append([]string{infrav1.DataReadyCondition}, more...) {
		list = append(list, metav1.Condition{Type: conditionType, Status: status, Reason: reason})
	}
	for _, conditionType := range []string{infrav1.HostAssociatedCondition, infrav1.DataAssociatedCondition} {
		list = append(list, metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: conditionType + "Success"})
	}
	for i := range list {
		list[i].LastTransitionTime = metav1.Now()
	}
	return list
}

// oldConditions returns conditions in the format of v1beta1, as CAPM3 writes them. Nil if CAPM3 itself writes them.
func oldConditions() *infrav1.DeprecatedStatus {
	if os.Getenv(managerVariable) != "" {
		return nil
	}
	ready := v1beta1conditions.TrueCondition(clusterv1.ReadyV1Beta1Condition)
	ready.LastTransitionTime = metav1.Now()
	status := &infrav1.Metal3V1Beta1Status{}
	status.Conditions = append(status.Conditions, *ready)
	return &infrav1.DeprecatedStatus{V1Beta1: status}
}

// waitingForData sets a Metal3DataTemplate that does not exist yet, so that the Metal3Machine waits for it.
func waitingForData(namespace string) build.ObjectOption {
	return stage.With(func(machine *infrav1.Metal3Machine) {
		machine.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: lateTemplate, Namespace: namespace}
		machine.Status.Conditions = conditionsOf(metav1.ConditionFalse, infrav1.WaitingForDataReason, infrav1.ReadyCondition)
	})
}

func dataClaim(machine *infrav1.Metal3Machine, template string) *infrav1.Metal3DataClaim {
	return &infrav1.Metal3DataClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: machine.Namespace, Name: machine.Name, Labels: machine.Labels,
			Finalizers:      []string{infrav1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(machine, infrav1.GroupVersion.WithKind("Metal3Machine"))},
		},
		Spec: infrav1.Metal3DataClaimSpec{Template: &infrav1.Metal3ObjectRef{Name: template, Namespace: machine.Namespace}},
	}
}

func dataTemplate(namespace, name string) *infrav1.Metal3DataTemplate {
	return &infrav1.Metal3DataTemplate{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Finalizers: []string{infrav1.DataTemplateFinalizer},
		},
		Spec: infrav1.Metal3DataTemplateSpec{
			ClusterName: clusterName,
			MetaData:    &infrav1.MetaData{ObjectNames: []infrav1.MetaDataObjectName{{Key: "name", Object: "machine"}}},
		},
	}
}

// blocked returns the annotation that CAPM3 sets on claimed hosts.
func blocked() build.ObjectOption {
	return build.Annotations(map[string]string{infrav1.BlockMoveAnnotation: ""})
}

func ofCluster() build.ObjectOption {
	return build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName})
}
