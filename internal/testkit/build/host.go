package build

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ImageURL is the image of provisioned hosts and of machines, unless a test sets another.
const ImageURL = "http://images.example/node.qcow2"

const (
	imageChecksum = "http://images.example/node.qcow2.sha256sum"
	checksumType  = "sha256"

	defaultCPUs      = 8
	defaultMemoryMiB = 16384
)

// HostOption changes a host.
type HostOption interface {
	applyToHost(*bmov1alpha1.BareMetalHost)
}

type hostOption func(*bmov1alpha1.BareMetalHost)

func (o hostOption) applyToHost(host *bmov1alpha1.BareMetalHost)   { o(host) }
func (o ObjectOption) applyToHost(host *bmov1alpha1.BareMetalHost) { o(host) }

// Host returns a host that BMO has not reconciled yet.
func Host(name string, options ...HostOption) *bmov1alpha1.BareMetalHost {
	host := &bmov1alpha1.BareMetalHost{
		TypeMeta:   metav1.TypeMeta{APIVersion: bmov1alpha1.GroupVersion.String(), Kind: "BareMetalHost"},
		ObjectMeta: meta(name),
		Spec: bmov1alpha1.BareMetalHostSpec{
			BMC: bmov1alpha1.BMCDetails{
				Address:         "redfish+http://bmc.example/redfish/v1/Systems/" + name,
				CredentialsName: name + "-bmc",
			},
			BootMACAddress: macOf(name),
		},
	}
	for _, option := range options {
		option.applyToHost(host)
	}
	return host
}

// ControllerPassword is the password of ControllerSecret.
const ControllerPassword = "password"

// ControllerSecret returns the Secret with the credentials of the BMC of a host.
func ControllerSecret(host *bmov1alpha1.BareMetalHost, options ...ObjectOption) *corev1.Secret {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Spec.BMC.CredentialsName},
		Data:       map[string][]byte{"username": []byte("admin"), "password": []byte(ControllerPassword)},
	}
	for _, option := range options {
		option(secret)
	}
	return secret
}

// CreateHost creates a host with its status, and the Secret of its BMC unless it exists.
func CreateHost(ctx context.Context, c client.Client, host *bmov1alpha1.BareMetalHost) error {
	if err := c.Create(ctx, ControllerSecret(host)); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return CreateWithStatus(ctx, c, host)
}

// Available marks a host as inspected and available.
func Available() HostOption {
	return hostOption(func(host *bmov1alpha1.BareMetalHost) {
		setState(host, bmov1alpha1.StateAvailable)
		ensureHardware(host)
	})
}

// Provisioned returns the option for a host that runs its image.
func Provisioned() HostOption {
	return hostOption(func(host *bmov1alpha1.BareMetalHost) {
		image := bmov1alpha1.Image{URL: ImageURL, Checksum: imageChecksum, ChecksumType: checksumType}
		setState(host, bmov1alpha1.StateProvisioned)
		ensureHardware(host)
		host.Spec.Image = &image
		host.Spec.Online = true
		host.Status.Provisioning.Image = image
		host.Status.PoweredOn = true
	})
}

// State sets only the state of provisioning.
func State(state bmov1alpha1.ProvisioningState) HostOption {
	return hostOption(func(host *bmov1alpha1.BareMetalHost) { setState(host, state) })
}

// Error sets an error in the status.
func Error(message string) HostOption {
	return hostOption(func(host *bmov1alpha1.BareMetalHost) {
		host.Status.OperationalStatus = bmov1alpha1.OperationalStatusError
		host.Status.ErrorType = bmov1alpha1.ProvisioningError
		host.Status.ErrorMessage = message
		host.Status.ErrorCount = 1
	})
}

// Consumed sets a machine as the consumer of the host.
func Consumed(by *infrav1.Metal3Machine) HostOption {
	return hostOption(func(host *bmov1alpha1.BareMetalHost) {
		host.Spec.ConsumerRef = &corev1.ObjectReference{
			APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Namespace: by.Namespace, Name: by.Name,
		}
	})
}

// Paused pauses the host. infrav1.HostPausedByProvider is the value of the provider.
func Paused(value string) HostOption {
	return hostOption(func(host *bmov1alpha1.BareMetalHost) {
		Annotations(map[string]string{bmov1alpha1.PausedAnnotation: value})(host)
	})
}

// Hardware sets the results of the inspection.
func Hardware(cpus, memoryMiB int) HostOption {
	return hostOption(func(host *bmov1alpha1.BareMetalHost) {
		details := ensureHardware(host)
		details.CPU.Count = cpus
		details.RAMMebibytes = memoryMiB
	})
}

// NIC adds a network interface to the results of the inspection.
func NIC(name, mac, address string) HostOption {
	return hostOption(func(host *bmov1alpha1.BareMetalHost) {
		details := ensureHardware(host)
		details.NIC = append(details.NIC, bmov1alpha1.NIC{Name: name, MAC: mac, IP: address})
	})
}

// setState also sets the time of the last update: BMO treats a status without it as missing.
func setState(host *bmov1alpha1.BareMetalHost, state bmov1alpha1.ProvisioningState) {
	updated := metav1.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	host.Status.LastUpdated = &updated
	host.Status.Provisioning.State = state
	host.Status.OperationalStatus = bmov1alpha1.OperationalStatusOK
}

func ensureHardware(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.HardwareDetails {
	if host.Status.HardwareDetails == nil {
		host.Status.HardwareDetails = &bmov1alpha1.HardwareDetails{
			CPU:          bmov1alpha1.CPU{Arch: "x86_64", Count: defaultCPUs},
			RAMMebibytes: defaultMemoryMiB,
			Hostname:     host.Name,
		}
	}
	return host.Status.HardwareDetails
}

// macOf returns a different address for every name, from the range for local use.
func macOf(name string) string {
	hash := fnv.New32a()
	// Writing to a hash cannot fail.
	_, _ = hash.Write([]byte(name))
	sum := hash.Sum(nil)
	return fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3])
}
