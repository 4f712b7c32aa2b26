package step_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

// The world of the tables: one host with its Secret, and the node that Ironic has of it.
const (
	hostUID  = "host-uid"
	nodeID   = "node-id"
	mac      = "02:22:00:00:00:14"
	imageURL = "http://172.22.0.1:8001/images/node.img"
)

var (
	rules = step.Rules{
		Poll: time.Second, Steady: time.Minute, Retry: 10 * time.Second, RetryLimit: 100 * time.Second, Capacity: 2,
	}
	now = metav1.NewTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
)

// seen is a host that Ironic knows, with credentials that work. Options change it.
func seen(state bmov1alpha1.ProvisioningState, node nodes.ProvisionState, options ...func(*step.Seen)) step.Seen {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "metal3", Name: "host-bmc", ResourceVersion: "7",
			Labels:          map[string]string{step.SecretLabel: step.SecretLabelValue},
			Finalizers:      []string{step.SecretFinalizer},
			OwnerReferences: []metav1.OwnerReference{{UID: hostUID}},
		},
		Data: map[string][]byte{"username": []byte("admin"), "password": []byte("secret\n")},
	}
	host := &bmov1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "metal3", Name: "host", UID: hostUID, Annotations: map[string]string{},
			Finalizers: []string{bmov1alpha1.BareMetalHostFinalizer},
		},
		Spec: bmov1alpha1.BareMetalHostSpec{
			BMC: bmov1alpha1.BMCDetails{
				Address: "lab+http://172.22.0.1:8000/machines/host", CredentialsName: "host-bmc",
			},
			BootMACAddress: mac,
			Online:         true,
		},
	}
	host.Status.LastUpdated = &now
	host.Status.OperationalStatus = bmov1alpha1.OperationalStatusOK
	host.Status.Provisioning.State = state
	host.Status.Provisioning.ID = nodeID
	host.UpdateGoodCredentials(*secret)
	host.UpdateTriedCredentials(*secret)
	all := step.Seen{Host: host, Secret: secret, Now: now, Ironic: step.Ironic{Ports: []string{mac}}}
	all.Node = &nodes.Node{
		UUID: nodeID, Name: "metal3~host", ProvisionState: string(node), AutomatedClean: ptr.To(true),
		PowerState: "power off",
		DriverInfo: map[string]any{
			"lab_address": "http://172.22.0.1:8000/machines/host", "lab_username": "admin", "lab_password": "******",
		},
	}
	for _, option := range options {
		option(&all)
	}
	return all
}

// running is a host with an image that it runs, as wanted.
func running(state bmov1alpha1.ProvisioningState, node nodes.ProvisionState, options ...func(*step.Seen)) step.Seen {
	return seen(state, node, append([]func(*step.Seen){wantsImage, hasImage, isOn}, options...)...)
}

func image() *bmov1alpha1.Image {
	return &bmov1alpha1.Image{URL: imageURL, Checksum: imageURL + ".sha256sum", ChecksumType: "sha256"}
}

func wantsImage(s *step.Seen) { s.Host.Spec.Image = image() }
func hasImage(s *step.Seen)   { s.Host.Status.Provisioning.Image = *image() }
func noNode(s *step.Seen)     { s.Ironic = step.Ironic{} }
func noSecret(s *step.Seen)   { s.Secret = nil }
func deleted(s *step.Seen)    { s.Host.DeletionTimestamp = &now }
func offline(s *step.Seen)    { s.Host.Spec.Online = false }
func external(s *step.Seen)   { s.Host.Spec.ExternallyProvisioned = true }
func crowded(s *step.Seen)    { s.Busy = 2 }

func isOn(s *step.Seen) {
	s.Host.Status.PoweredOn = true
	s.Node.PowerState = "power on"
}

func onNode(change func(*nodes.Node)) func(*step.Seen) {
	return func(s *step.Seen) { change(s.Node) }
}

func onHost(change func(*bmov1alpha1.BareMetalHost)) func(*step.Seen) {
	return func(s *step.Seen) { change(s.Host) }
}

func lastError(message string) func(*step.Seen) {
	return onNode(func(node *nodes.Node) { node.LastError = message })
}

func annotated(key, value string) func(*step.Seen) {
	return onHost(func(host *bmov1alpha1.BareMetalHost) { host.Annotations[key] = value })
}

func failed(kind bmov1alpha1.ErrorType, count int) func(*step.Seen) {
	return onHost(func(host *bmov1alpha1.BareMetalHost) {
		host.Status.OperationalStatus = bmov1alpha1.OperationalStatusError
		host.Status.ErrorType, host.Status.ErrorMessage, host.Status.ErrorCount = kind, "before", count
	})
}

// deployed is a node that was told the image before.
func deployed(node *nodes.Node) {
	node.InstanceUUID = hostUID
	node.InstanceInfo = map[string]any{
		"image_source": imageURL, "image_os_hash_algo": "sha256", "image_os_hash_value": imageURL + ".sha256sum",
	}
}

// newSecret is what the user has changed since the credentials were tried.
func newSecret(s *step.Seen) {
	s.Secret.ResourceVersion = "8"
	s.Secret.Data["password"] = []byte("better")
}

// want is what a table says of a step. What it leaves out must be as in the beginning.
type want struct {
	state  bmov1alpha1.ProvisioningState
	status bmov1alpha1.OperationalStatus
	error  bmov1alpha1.ErrorType
	text   string
	count  int
	chore  step.Chore
	call   step.Call
	after  time.Duration
}

// story is a row of a table.
type story struct {
	reason string
	seen   step.Seen
	want   want

	// check looks at what want does not tell.
	check func(*testing.T, *bmov1alpha1.BareMetalHost)
}

func (s story) judge(t *testing.T, got *step.Step) {
	t.Helper()
	status := got.Host.Status
	found := want{
		state: status.Provisioning.State, status: status.OperationalStatus, error: status.ErrorType,
		text: status.ErrorMessage, count: status.ErrorCount, chore: got.Chore, call: got.Call, after: got.After,
	}
	expected := s.want
	if expected.state == "" {
		expected.state = s.seen.Host.Status.Provisioning.State
	}
	if expected.status == "" {
		expected.status = s.seen.Host.Status.OperationalStatus
	}
	if diff := cmp.Diff(expected, found, cmp.AllowUnexported(want{})); diff != "" {
		t.Errorf("%s (%s)\n(-want +got):\n%s", s.reason, got.Why, diff)
	}
	if s.check != nil {
		s.check(t, got.Host)
	}
}

func runNext(t *testing.T, stories map[string]story) {
	t.Helper()
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			before := story.seen.Host.DeepCopy()
			got := step.Next(story.seen, rules)
			story.judge(t, &got)
			if diff := cmp.Diff(before, story.seen.Host); diff != "" {
				t.Errorf("the host that was seen has been changed (-before +after):\n%s", diff)
			}
		})
	}
}

// update is the call that changes fields of a node.
func update(changes ...nodes.UpdateOperation) step.Call {
	all := step.Update{}
	for _, change := range changes {
		all.Changes = append(all.Changes, change)
	}
	return all
}

func add(path string, value any) nodes.UpdateOperation {
	return nodes.UpdateOperation{Op: nodes.AddOp, Path: path, Value: value}
}

func power(target nodes.TargetPowerState) step.Call {
	options := nodes.PowerStateOpts{Target: target}
	if target == nodes.SoftPowerOff || target == nodes.SoftRebooting {
		options.Timeout = 180
	}
	return step.Power{Options: options}
}
