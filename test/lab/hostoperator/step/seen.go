package step

import (
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names that the Baremetal Operator writes on objects which are not hosts.
const (
	// SecretFinalizer keeps the Secret of a management controller until its host is gone.
	SecretFinalizer = bmov1alpha1.BareMetalHostFinalizer + "/secret"

	// HardwareFinalizer keeps the HardwareData of a host until the host is deleted.
	HardwareFinalizer = bmov1alpha1.BareMetalHostFinalizer + "/hardwareData"

	// SecretLabel with the value SecretLabelValue is on every Secret that a host refers to.
	SecretLabel = "environment.metal3.io"

	// SecretLabelValue is the value of SecretLabel.
	SecretLabelValue = "baremetal"
)

// Seen is everything that is known of a host when its next step is decided.
type Seen struct {
	// Host is never nil and never changed.
	Host *bmov1alpha1.BareMetalHost

	// Hardware is the HardwareData of the same name. Nil means that there is none.
	Hardware *bmov1alpha1.HardwareData

	// Secret holds the credentials of the management controller. Nil means that there is none, or that the host names
	// none.
	Secret *corev1.Secret

	// Now is the time that the status gets.
	Now metav1.Time

	// Ironic is what Ironic knows. It counts for Next alone.
	Ironic
}

// Ironic is what Ironic knows of a host.
type Ironic struct {
	// Node is the host's. Nil means that Ironic has no such node.
	Node *nodes.Node

	// Ports are the MAC addresses of the node's ports. As all that follows, they count only while Ironic is not working
	// on the node, and need not be looked up otherwise.
	Ports []string

	// Inventory is what the last inspection found. Nil means that none has been finished. It is looked up only where
	// Query.Inventory says so.
	Inventory *bmov1alpha1.HardwareDetails

	// Stranger is the name of another node that has a port with the boot MAC address of the host. It is looked up only
	// while the host has no node.
	Stranger string

	// Busy is how many other nodes Ironic is working on. It is counted only where Query.Busy says so.
	Busy int
}

// Query says what to look up in Ironic.
type Query struct {
	// ID is that of the node when it was last seen. It may be empty, and it may be of another Ironic.
	ID string

	// Name is the name of the node: unlike the ID, it survives an Ironic that lost its database.
	Name string

	// MACAddress is the boot MAC address of the host. It may be empty.
	MACAddress string

	// Inventory asks for the result of the inspection.
	Inventory bool

	// Busy asks how many nodes are being worked on.
	Busy bool
}

// QueryFor says what Next has to know of a host.
func QueryFor(host *bmov1alpha1.BareMetalHost) Query {
	query := Query{
		ID:         host.Status.Provisioning.ID,
		Name:       NodeName(host),
		MACAddress: strings.ToLower(host.Spec.BootMACAddress),
	}
	switch host.Status.Provisioning.State {
	case bmov1alpha1.StateInspecting:
		query.Inventory, query.Busy = true, true
	case bmov1alpha1.StateProvisioning, bmov1alpha1.StateDeprovisioning:
		query.Busy = true
	}
	return query
}

// NodeName is the name of a host's node in Ironic.
func NodeName(host *bmov1alpha1.BareMetalHost) string { return host.Namespace + "~" + host.Name }

// IsBusy says whether Ironic is working on a node, so that it takes one of the places that Rules.Capacity counts.
func IsBusy(node *nodes.Node) bool {
	switch nodes.ProvisionState(node.ProvisionState) {
	case nodes.Cleaning, nodes.CleanWait, nodes.Inspecting, nodes.InspectWait,
		nodes.Deploying, nodes.DeployWait, nodes.Deleting:
		return true
	default:
		return false
	}
}

// Rules are how patient the operator is.
type Rules struct {
	// Poll is how often a node is looked at that Ironic is working on.
	Poll time.Duration

	// Steady is how often a host is looked at with which nothing happens.
	Steady time.Duration

	// Retry is how long to wait after the first error. It doubles with every further one, up to RetryLimit.
	Retry, RetryLimit time.Duration

	// Capacity is how many nodes Ironic may work on at once. A host beyond it is delayed. Zero means no limit.
	Capacity int
}

// backoff is the time to wait after a number of errors.
func (r Rules) backoff(errors int) time.Duration {
	wait := r.Retry
	for range errors - 1 {
		if wait >= r.RetryLimit/2 {
			return r.RetryLimit
		}
		wait *= 2
	}
	return wait
}

// Never is the time after which to look again at a host that only an event can carry on.
const Never time.Duration = -1

// Step is what to do next: the chore, then the call, then to write the host. If one of them fails the rest is left, and
// all is observed again.
type Step struct {
	// Why is what is being done, for the log. It holds nothing secret.
	Why string

	// Chore is work on another object of the cluster.
	Chore Chore

	// Call is a request to Ironic. Nil means none.
	Call Call

	// Host is the host as it shall be: its metadata and its status.
	Host *bmov1alpha1.BareMetalHost

	// After is when to look again: zero is at once, Never is when something has changed.
	After time.Duration
}

// Chore is work on an object other than the host.
type Chore string

// The chores there are.
const (
	// NoChore leaves the other objects alone.
	NoChore Chore = ""

	// ClaimSecret puts the label, the owner and the finalizer on the Secret of the management controller.
	ClaimSecret Chore = "claim the Secret"

	// ReleaseSecret takes the finalizer from that Secret.
	ReleaseSecret Chore = "release the Secret"

	// RecordHardware writes Step.Host's hardware into the HardwareData.
	RecordHardware Chore = "record the hardware"

	// ReleaseHardware takes the finalizer from the HardwareData.
	ReleaseHardware Chore = "release the HardwareData"
)

// Call is a request to Ironic. It is one of the types of this package.
type Call interface{ isCall() }

// Enroll makes a node.
type Enroll struct{ Node nodes.CreateOpts }

// AddPort makes a port of the node.
type AddPort struct {
	// MACAddress is in lower case.
	MACAddress string

	// PXE says that the node boots from it.
	PXE bool
}

// Update changes fields of the node.
type Update struct{ Changes nodes.UpdateOpts }

// Provision changes the provision state of the node.
type Provision struct{ Target nodes.TargetProvisionState }

// Deploy writes the image of the node's instance_info to its disk.
type Deploy struct {
	// Steps are added to those that Ironic knows.
	Steps []nodes.DeployStep

	// ConfigDrive is filled in by whoever makes the call, because it comes from Secrets. See ConfigDrive.
	ConfigDrive nodes.ConfigDrive
}

// Power changes the power of the node.
type Power struct{ Options nodes.PowerStateOpts }

// Maintenance sets or clears the maintenance flag of the node. A node in maintenance is not worked on, and can be
// removed in any state.
type Maintenance struct {
	On     bool
	Reason string
}

// Remove removes the node from Ironic and leaves the machine as it is.
type Remove struct{}

func (Enroll) isCall()      {}
func (AddPort) isCall()     {}
func (Update) isCall()      {}
func (Provision) isCall()   {}
func (Deploy) isCall()      {}
func (Power) isCall()       {}
func (Maintenance) isCall() {}
func (Remove) isCall()      {}
