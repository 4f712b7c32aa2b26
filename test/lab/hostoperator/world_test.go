package hostoperator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

// goodPassword is the only one that the management controllers accept.
const goodPassword = "correct-horse"

// backend is an Ironic with machines behind it.
type backend interface {
	service
	machines
}

// service is an Ironic.
type service interface {
	settings() ironicapi.Settings

	// lose takes Ironic away, and replace brings one with an empty database to the same address.
	lose(context.Context)
	replace(context.Context)
}

// machines are what Ironic works on.
type machines interface {
	// address is the BMC address of a machine that exists as soon as somebody names it.
	address(machine string) string

	// commands are what was done to a machine so far: "power on", "write disk" and the like.
	commands(machine string) []string

	// powered says whether a machine is on.
	powered(machine string) bool

	// image is one that can be written, and its URL with ".missing" is one that cannot.
	image() *bmov1alpha1.Image

	// drive is the config drive that a machine got last: a text that holds the texts of its files.
	drive(machine string) string
}

// serial makes MAC addresses, which must differ over all stories because all know the same Ironic.
var serial atomic.Uint32

// world is a namespace in which one story plays.
type world struct {
	backend
	client.Client
	suite     *suite
	namespace string
	rules     step.Rules
}

func (s *suite) world(ctx context.Context, b backend) *world {
	GinkgoHelper()
	return &world{
		backend: b, Client: s.server.Client, suite: s, namespace: stage.Namespace(ctx, s.server),
		rules: step.Rules{
			Poll: 50 * time.Millisecond, Steady: time.Minute, Retry: 200 * time.Millisecond, RetryLimit: time.Second,
		},
	}
}

// operate runs an operator, with the rights that it has in a cluster, until the returned function is called or the story
// ends.
func (w *world) operate() func() {
	GinkgoHelper()
	config, err := w.suite.server.User(
		"system:serviceaccount:"+hostoperator.Namespace+":"+hostoperator.Name, "system:serviceaccounts")
	Expect(err).NotTo(HaveOccurred())
	options := hostoperator.NewOptions()
	options.Namespace, options.HealthAddress, options.MetricsAddress = w.namespace, "0", "0"
	options.Rules = w.rules
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- hostoperator.Run(ctx, config, w.settings(), options)
		close(ended)
	}()
	stop := func() {
		GinkgoHelper()
		cancel()
		Eventually(ended).Should(Or(Receive(Not(HaveOccurred())), BeClosed()))
	}
	DeferCleanup(stop)
	return stop
}

// machine is the name of the machine behind a host.
func (w *world) machine(host string) string { return w.namespace + "-" + host }

// host makes a host that is online, and the Secret for it.
func (w *world) host(ctx context.Context, name string, options ...func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	w.secret(ctx, name+"-bmc", map[string]string{"username": "operator", "password": goodPassword})
	w.hostAlone(ctx, name, options...)
}

func (w *world) hostAlone(ctx context.Context, name string, options ...func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	number := serial.Add(1)
	host := &bmov1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: map[string]string{}},
		Spec: bmov1alpha1.BareMetalHostSpec{
			BMC: bmov1alpha1.BMCDetails{
				Address: "lab+" + w.address(w.machine(name)), CredentialsName: name + "-bmc",
			},
			BootMACAddress: fmt.Sprintf("02:22:00:00:%02x:%02x", number>>8, number&0xff),
			Online:         true,
		},
	}
	for _, option := range options {
		option(host)
	}
	Expect(w.Create(ctx, host)).To(Succeed())
}

func (w *world) secret(ctx context.Context, name string, data map[string]string) {
	GinkgoHelper()
	Expect(w.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, StringData: data,
	})).To(Succeed())
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

// change changes a host as a user does.
func (w *world) change(ctx context.Context, name string, edit func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	stage.Change(ctx, w.Client, w.key(name), &bmov1alpha1.BareMetalHost{}, edit)
}

func (w *world) annotate(ctx context.Context, name, annotation, value string) {
	GinkgoHelper()
	w.change(ctx, name, func(host *bmov1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, annotation, value)
	})
}

func (w *world) get(ctx context.Context, name string) *bmov1alpha1.BareMetalHost {
	GinkgoHelper()
	host := &bmov1alpha1.BareMetalHost{}
	Expect(w.Get(ctx, w.key(name), host)).To(Succeed())
	return host
}

// eventually waits until a host matches.
func (w *world) eventually(ctx context.Context, name string, want ...gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(w.look(name), ctx).Should(And(want...), "host %s", name)
}

// consistently looks for a while whether a host keeps matching.
func (w *world) consistently(ctx context.Context, name string, want ...gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Consistently(w.look(name), ctx).Should(And(want...), "host %s", name)
}

func (w *world) look(name string) func(context.Context) (*bmov1alpha1.BareMetalHost, error) {
	return func(ctx context.Context) (*bmov1alpha1.BareMetalHost, error) {
		host := &bmov1alpha1.BareMetalHost{}
		return host, w.Get(ctx, w.key(name), host)
	}
}

func (w *world) eventuallyGone(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		return w.Get(ctx, w.key(name), &bmov1alpha1.BareMetalHost{})
	}, ctx).Should(MatchError(ContainSubstring("not found")), "host %s", name)
}

// provisioned makes a host that runs an image.
func (w *world) provisioned(ctx context.Context, name string) {
	GinkgoHelper()
	w.host(ctx, name, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image = w.image() })
	w.eventually(ctx, name, inState(bmov1alpha1.StateProvisioned), isFine(), isOn(true))
}

// move does with a host what clusterctl does: its status is put into the annotation while it is paused, and another host
// with the same metadata and without a status takes its place.
func (w *world) move(ctx context.Context, name string) {
	GinkgoHelper()
	before := w.get(ctx, name)
	status := before.Status.DeepCopy()
	status.HardwareDetails = nil
	encoded, err := json.Marshal(status)
	Expect(err).NotTo(HaveOccurred())
	w.change(ctx, name, func(host *bmov1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.PausedAnnotation, "move")
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.StatusAnnotation, string(encoded))
	})
	moved := w.get(ctx, name)
	Expect(w.Delete(ctx, moved.DeepCopy())).To(Succeed())
	w.consistently(ctx, name, HaveField("Finalizers", ConsistOf(bmov1alpha1.BareMetalHostFinalizer)))
	w.change(ctx, name, func(host *bmov1alpha1.BareMetalHost) { host.Finalizers = nil })
	w.eventuallyGone(ctx, name)
	Expect(w.Create(ctx, &bmov1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: moved.Namespace, Name: name, Annotations: moved.Annotations, Finalizers: moved.Finalizers,
		},
		Spec: moved.Spec,
	})).To(Succeed())
}

func inState(state bmov1alpha1.ProvisioningState) gomegatypes.GomegaMatcher {
	return HaveField("Status.Provisioning.State", state)
}

func isFine() gomegatypes.GomegaMatcher {
	return And(
		HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusOK),
		HaveField("Status.ErrorType", BeEmpty()),
		HaveField("Status.ErrorMessage", BeEmpty()),
	)
}

func hasFailed(kind bmov1alpha1.ErrorType, message string) gomegatypes.GomegaMatcher {
	return And(
		HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusError),
		HaveField("Status.ErrorType", kind),
		HaveField("Status.ErrorMessage", ContainSubstring(message)),
		HaveField("Status.ErrorCount", BeNumerically(">", 0)),
	)
}

func isOn(on bool) gomegatypes.GomegaMatcher { return HaveField("Status.PoweredOn", on) }

func hasNode(id string) gomegatypes.GomegaMatcher { return HaveField("Status.Provisioning.ID", id) }
