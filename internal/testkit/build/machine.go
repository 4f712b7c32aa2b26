package build

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Formats of bootstrap data.
const (
	CloudConfig = "cloud-config"
	Ignition    = "ignition"
)

// MachineOption changes a Machine.
type MachineOption interface{ applyToMachine(*clusterv1.Machine) }

type machineOption func(*clusterv1.Machine)

func (o machineOption) applyToMachine(machine *clusterv1.Machine) { o(machine) }
func (o ObjectOption) applyToMachine(machine *clusterv1.Machine)  { o(machine) }

// Machine returns a Machine of a cluster. Its infrastructure is the Metal3Machine of the same name, and its bootstrap
// data the Secret that BootstrapSecret returns.
func Machine(name, cluster string, options ...MachineOption) *clusterv1.Machine {
	secret := bootstrapName(name)
	machine := &clusterv1.Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: meta(name),
		Spec: clusterv1.MachineSpec{
			ClusterName:       cluster,
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: &secret},
			InfrastructureRef: infrastructure("Metal3Machine", name),
		},
	}
	machine.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
	for _, option := range options {
		option.applyToMachine(machine)
	}
	return machine
}

// ControlPlaneMachine makes a Machine part of the control plane of a cluster.
func ControlPlaneMachine(name, cluster string, options ...MachineOption) *clusterv1.Machine {
	label := Labels(map[string]string{clusterv1.MachineControlPlaneLabel: ""})
	return Machine(name, cluster, append([]MachineOption{label}, options...)...)
}

// WithoutBootstrapData makes a Machine that still waits for its bootstrap data from a KubeadmConfig.
func WithoutBootstrapData() MachineOption {
	return machineOption(func(machine *clusterv1.Machine) {
		machine.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: machine.Name,
		}}
	})
}

// Metal3MachineOption changes a Metal3Machine.
type Metal3MachineOption interface{ applyToMetal3Machine(*infrav1.Metal3Machine) }

type metal3MachineOption func(*infrav1.Metal3Machine)

func (o metal3MachineOption) applyToMetal3Machine(machine *infrav1.Metal3Machine) { o(machine) }
func (o ObjectOption) applyToMetal3Machine(machine *infrav1.Metal3Machine)        { o(machine) }

// Metal3Machine returns a Metal3Machine of a cluster. It can claim any host.
func Metal3Machine(name, cluster string, options ...Metal3MachineOption) *infrav1.Metal3Machine {
	machine := &infrav1.Metal3Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine"},
		ObjectMeta: meta(name),
		Spec:       metal3MachineSpec(),
	}
	machine.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
	for _, option := range options {
		option.applyToMetal3Machine(machine)
	}
	return machine
}

// OnHost sets the claimed host of a Metal3Machine.
func OnHost(host *bmov1alpha1.BareMetalHost) Metal3MachineOption {
	return metal3MachineOption(func(machine *infrav1.Metal3Machine) {
		Annotations(map[string]string{infrav1.HostAnnotation: host.Namespace + "/" + host.Name})(machine)
	})
}

// SelectorOption is an option for kinds with a hostSelector.
type SelectorOption map[string]string

// Selecting sets a hostSelector with these labels.
func Selecting(labels map[string]string) SelectorOption { return labels }

func (o SelectorOption) applyToMetal3Machine(machine *infrav1.Metal3Machine) {
	machine.Spec.HostSelector.MatchLabels = merge(machine.Spec.HostSelector.MatchLabels, o)
}

func (o SelectorOption) applyToMachineTemplate(template *infrav1.Metal3MachineTemplate) {
	selector := &template.Spec.Template.Spec.HostSelector
	selector.MatchLabels = merge(selector.MatchLabels, o)
}

// MachineTemplateOption changes a Metal3MachineTemplate.
type MachineTemplateOption interface {
	applyToMachineTemplate(*infrav1.Metal3MachineTemplate)
}

type machineTemplateOption func(*infrav1.Metal3MachineTemplate)

func (o machineTemplateOption) applyToMachineTemplate(template *infrav1.Metal3MachineTemplate) {
	o(template)
}
func (o ObjectOption) applyToMachineTemplate(template *infrav1.Metal3MachineTemplate) { o(template) }

// MachineTemplate returns a Metal3MachineTemplate.
func MachineTemplate(name string, options ...MachineTemplateOption) *infrav1.Metal3MachineTemplate {
	template := &infrav1.Metal3MachineTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3MachineTemplate"},
		ObjectMeta: meta(name),
		Spec: infrav1.Metal3MachineTemplateSpec{
			Template: infrav1.Metal3MachineTemplateResource{Spec: metal3MachineSpec()},
		},
	}
	for _, option := range options {
		option.applyToMachineTemplate(template)
	}
	return template
}

// NodeReuse reserves the hosts of the template's machines for the next machine.
func NodeReuse() MachineTemplateOption {
	return machineTemplateOption(func(template *infrav1.Metal3MachineTemplate) { template.Spec.NodeReuse = true })
}

// DomainOption is an option for kinds with a failure domain.
type DomainOption string

// InDomain sets the failure domain of a host, a Machine or a Metal3Machine.
func InDomain(name string) DomainOption { return DomainOption(name) }

func (o DomainOption) applyToHost(host *bmov1alpha1.BareMetalHost) {
	Labels(map[string]string{infrav1.FailureDomainLabel: string(o)})(host)
}

func (o DomainOption) applyToMachine(machine *clusterv1.Machine) {
	machine.Spec.FailureDomain = string(o)
}

func (o DomainOption) applyToMetal3Machine(machine *infrav1.Metal3Machine) {
	machine.Spec.FailureDomain = string(o)
}

// BootstrapSecret returns the bootstrap data of the Machine with this name. An empty format omits the key, which means
// cloud-config.
func BootstrapSecret(machine, format string, data []byte, options ...ObjectOption) *corev1.Secret {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta(bootstrapName(machine)),
		Type:       clusterv1.ClusterSecretType,
		Data:       map[string][]byte{"value": data},
	}
	if format != "" {
		secret.Data["format"] = []byte(format)
	}
	for _, option := range options {
		option(secret)
	}
	return secret
}

func bootstrapName(machine string) string { return machine + "-bootstrap" }

func metal3MachineSpec() infrav1.Metal3MachineSpec {
	return infrav1.Metal3MachineSpec{
		Image: &infrav1.Image{URL: ImageURL, Checksum: imageChecksum, ChecksumType: checksumType},
	}
}
