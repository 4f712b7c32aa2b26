package v1beta2_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func machineTemplate(changes ...func(*infrav1.Metal3MachineSpec)) *infrav1.Metal3MachineTemplate {
	spec := validMachineSpec()
	for _, change := range changes {
		change(&spec)
	}
	return &infrav1.Metal3MachineTemplate{
		ObjectMeta: named("template"),
		Spec: infrav1.Metal3MachineTemplateSpec{
			Template: infrav1.Metal3MachineTemplateResource{Spec: spec},
		},
	}
}

func TestMetal3MachineTemplateCreate(t *testing.T) {
	wrong := infrav1.HostSelector{MatchLabels: map[string]string{"rack": "not a label"}}
	judge(t, v1beta2.Metal3MachineTemplateValidator(), map[string]step[*infrav1.Metal3MachineTemplate]{
		"valid": {reason: "as a machine", after: machineTemplate()},
		"no image": {
			reason: "the rules of a machine apply",
			after:  machineTemplate(func(spec *infrav1.Metal3MachineSpec) { spec.Image = nil }),
			want: []string{"spec.template.spec.image: Required value: set image, or customDeploy.method to deploy " +
				"without one"},
		},
		"custom deploy": {
			reason: "a deploy step requires no image",
			after: machineTemplate(func(spec *infrav1.Metal3MachineSpec) {
				spec.Image, spec.CustomDeploy = nil, &infrav1.CustomDeploy{Method: "install_everything"}
			}),
		},
		"foreign namespaces": {
			reason: "a ClusterClass may be in another namespace than its machines",
			after: machineTemplate(func(spec *infrav1.Metal3MachineSpec) {
				spec.UserData = &corev1.SecretReference{Name: "user", Namespace: "tenant"}
				spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "data", Namespace: "tenant"}
			}),
			warnings: []string{onlyIn("spec.template.spec.userData"), onlyIn("spec.template.spec.dataTemplate")},
		},
		"own namespace": {
			reason: "the own namespace may be named",
			after: machineTemplate(func(spec *infrav1.Metal3MachineSpec) {
				spec.UserData = &corev1.SecretReference{Name: "user", Namespace: namespace}
				spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "data", Namespace: namespace}
			}),
		},
		"data template without name": {
			reason: "the machines would be refused too",
			after: machineTemplate(func(spec *infrav1.Metal3MachineSpec) {
				spec.DataTemplate = &infrav1.Metal3ObjectRef{Namespace: namespace}
			}),
			want: []string{"spec.template.spec.dataTemplate.name: Required value: name a Metal3DataTemplate, or leave out " +
				"dataTemplate"},
		},
		"selector": {
			reason: "the warning names the field of the template",
			after: machineTemplate(func(spec *infrav1.Metal3MachineSpec) {
				spec.HostSelector = wrong
			}),
			warnings: unreadable(t, "spec.template.spec", wrong),
		},
		"provider ID": {
			reason: "CAPM3 accepts it",
			after: machineTemplate(func(spec *infrav1.Metal3MachineSpec) {
				spec.ProviderID = "metal3://metal3/host-0/machine"
			}),
			warnings: []string{`spec.template.spec.providerID: "metal3://metal3/host-0/machine" would be the same for all ` +
				"machines; leave the field to the provider"},
		},
	})
}

// onlyIn returns the warning for a reference into namespace tenant.
func onlyIn(path string) string {
	return path + `.namespace: "tenant" is not the namespace of the template; only machines in namespace "tenant" are ` +
		"admitted; leave the field out for machines in any namespace"
}

func TestMetal3MachineTemplateUpdate(t *testing.T) {
	image := func(spec *infrav1.Metal3MachineSpec) {
		spec.Image.URL, spec.DataTemplate = "https://images.example/debian.qcow2", &infrav1.Metal3ObjectRef{Name: "data"}
	}
	cleaning := func(spec *infrav1.Metal3MachineSpec) { spec.AutomatedCleaningMode = infrav1.CleaningModeDisabled }
	reuse := machineTemplate()
	reuse.Spec.NodeReuse = true
	reuse.Spec.Template.ObjectMeta = clusterv1.ObjectMeta{Labels: map[string]string{"rack": "a"}}
	rehearsed := machineTemplate(image)
	rehearsed.Annotations = map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
	judge(t, v1beta2.Metal3MachineTemplateValidator(), map[string]step[*infrav1.Metal3MachineTemplate]{
		"image": {
			reason: "CAPM3 accepts it",
			before: machineTemplate(), after: machineTemplate(image),
			warnings: []string{"spec.template.spec: changed image.url, dataTemplate; existing machines keep the old spec: " +
				"create a new template and reference it to roll the change out"},
		},
		"cleaning mode": {
			reason: "the mode is copied to existing machines",
			before: machineTemplate(), after: machineTemplate(cleaning),
		},
		"image and cleaning mode": {
			reason: "other changes still cause a warning",
			before: machineTemplate(), after: machineTemplate(cleaning, image),
			warnings: []string{"spec.template.spec: changed image.url, dataTemplate; existing machines keep the old spec: " +
				"create a new template and reference it to roll the change out"},
		},
		"node reuse and metadata": {
			reason: "neither is part of the machine's spec",
			before: machineTemplate(), after: reuse,
		},
		"dry run of the topology controller": {
			reason: "the dry run compares templates",
			ctx:    dryRun(t.Context()),
			before: machineTemplate(), after: rehearsed,
		},
		"broken": {
			reason: "an update that makes it invalid is refused",
			before: machineTemplate(),
			after:  machineTemplate(func(spec *infrav1.Metal3MachineSpec) { spec.Image = nil }),
			want: []string{"spec.template.spec.image: Required value: set image, or customDeploy.method to deploy " +
				"without one"},
			warnings: []string{"spec.template.spec: changed image; existing machines keep the old spec: create a new " +
				"template and reference it to roll the change out"},
		},
	})
}
