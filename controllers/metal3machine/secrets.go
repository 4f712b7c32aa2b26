package metal3machine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// secretNames returns the names of the Secrets that the machine may have set on its host: those in the specs of the
// machine and its Machine, and those of its rendered data. It does not use the status, which a move does not keep.
func (s *scope) secretNames() []string {
	names := []string{s.machine.Name + "-metadata", s.machine.Name + "-networkdata", userDataName(s)}
	add := func(references ...*corev1.SecretReference) {
		for _, reference := range references {
			if reference != nil {
				names = append(names, reference.Name)
			}
		}
	}
	add(s.machine.Spec.UserData, s.machine.Spec.MetaData, s.machine.Spec.NetworkData)
	if s.data != nil {
		add(s.data.Spec.MetaData, s.data.Spec.NetworkData)
	}
	if name := ptr.Deref(s.bootstrap.name, ""); name != "" {
		names = append(names, name)
	}
	return names
}

// reportSecrets sets the Secrets of the machine in its status. It omits Secrets of the administrator of the host,
// because CAPM3 removes the reported Secrets at the release. CAPM3 requires the user data before it writes the image.
func reportSecrets(s *scope) {
	status, spec, names := &s.machine.Status, s.host.Spec, s.secretNames()
	var wanted host.Provision
	if s.owner != nil && !isImaged(s.host) {
		wanted.UserData = userData(s)
		wanted.MetaData, wanted.NetworkData, _ = dataSecrets(s)
	}
	report(&status.UserData, spec.UserData, wanted.UserData, names)
	report(&status.MetaData, spec.MetaData, wanted.MetaData, names)
	report(&status.NetworkData, spec.NetworkData, wanted.NetworkData, names)
}

// report sets the Secret on the host if the machine set it, or else the Secret that the machine will set. If there is
// neither, it keeps the reported Secret, which may come from CAPM3.
func report(reported **corev1.SecretReference, onHost, wanted *corev1.SecretReference, names []string) {
	switch {
	case onHost != nil && slices.Contains(names, onHost.Name):
		*reported = onHost.DeepCopy()
	case onHost == nil && wanted != nil:
		*reported = wanted.DeepCopy()
	}
}
