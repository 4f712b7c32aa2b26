package stage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/fakeironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/operator"
)

const (
	// operatedLimit is the time limit of each wait for BMO.
	operatedLimit = 2 * time.Minute

	// triggerInterval is the interval between two reconciles of a host in a story of a controller.
	triggerInterval = 100 * time.Millisecond

	// PollInterval is the interval between two reconciles of a host in a suite with whole managers.
	PollInterval = 500 * time.Millisecond

	// noNamespace is a namespace that does not exist.
	noNamespace = "no-namespace"
)

// RunBMO runs BMO with an Ironic in memory until the end of the suite. A BMC accepts the password of
// build.ControllerSecret. BMO polls Ironic every 10 seconds.
func RunBMO(ctx context.Context, server *env.Server, flags ...string) (*operator.Operator, *fakeironic.Server) {
	GinkgoHelper()
	ironic := fakeironic.New()
	ironic.BoardPassword = build.ControllerPassword
	DeferCleanup(ironic.Close)
	bmo, err := operator.Install(ctx, server, operator.Settings{Ironic: ironic.Access(), Flags: flags}, nil)
	Expect(err).NotTo(HaveOccurred())
	return bmo, ironic
}

// BaremetalOperator is a BMO that operates the hosts of one namespace at a time, and polls Ironic several times a
// second.
type BaremetalOperator struct {
	server *env.Server
	bmo    *operator.Operator
	ironic *fakeironic.Server
}

// NewBaremetalOperator starts BMO. It operates no host yet. Its webhooks answer for all namespaces.
func NewBaremetalOperator(ctx context.Context, server *env.Server) *BaremetalOperator {
	GinkgoHelper()
	SetDefaultEventuallyTimeout(operatedLimit)
	bmo, ironic := RunBMO(ctx, server, onlyIn(noNamespace)...)
	return &BaremetalOperator{server: server, bmo: bmo, ironic: ironic}
}

// Operate operates the hosts of a namespace, and those of no other one, until the next call.
func (o *BaremetalOperator) Operate(ctx context.Context, namespace string) {
	GinkgoHelper()
	o.bmo.Kill()
	// The hosts of all stories have the same names and MAC addresses.
	o.ironic.Empty()
	o.bmo.Flags = onlyIn(namespace)
	Expect(o.bmo.Start(ctx)).To(Succeed())
	TriggerOften(o.server, namespace, triggerInterval)
}

// TriggerOften makes BMO reconcile each host of a namespace that waits for Ironic, at each interval. It ends with the
// spec, or with the container if it is called before all specs. BMO polls Ironic at each reconcile, and otherwise every
// 10 seconds.
func TriggerOften(server *env.Server, namespace string, interval time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		round := 0
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			round++
			if err := triggerAll(ctx, server.Client, namespace, round); err != nil && ctx.Err() == nil {
				// The next round repeats it: stories create and delete hosts at any time.
				GinkgoWriter.Println("BMO is not triggered for a host:", err)
			}
		}, interval)
	}()
	DeferCleanup(func() {
		stop()
		<-ended
	})
}

// triggerAll triggers BMO for each host of a namespace that waits for Ironic.
func triggerAll(ctx context.Context, c client.Client, namespace string, round int) error {
	hosts := &bmov1alpha1.BareMetalHostList{}
	err := c.List(ctx, hosts, client.InNamespace(namespace))
	for i := range hosts.Items {
		if host := &hosts.Items[i]; !rests(host) {
			err = errors.Join(err, trigger(ctx, c, host, round))
		}
	}
	return err
}

// rests returns true for a host for which BMO has nothing to do until its spec changes, which is an event for BMO.
func rests(host *bmov1alpha1.BareMetalHost) bool {
	if !host.DeletionTimestamp.IsZero() || host.Status.ErrorType != "" || host.Status.PoweredOn != host.Spec.Online {
		return false
	}
	for annotation := range host.Annotations {
		if strings.HasPrefix(annotation, bmov1alpha1.RebootAnnotationPrefix) {
			return false
		}
	}
	switch host.Status.Provisioning.State {
	case bmov1alpha1.StateAvailable:
		return !host.NeedsProvisioning()
	case bmov1alpha1.StateProvisioned:
		return host.Spec.Image != nil && host.Spec.Image.URL == host.Status.Provisioning.Image.URL
	default:
		return false
	}
}

// trigger changes a Secret of a host, and BMO then reconciles the host.
func trigger(ctx context.Context, c client.Client, host *bmov1alpha1.BareMetalHost, round int) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name + "-trigger"}}
	patch := fmt.Sprintf(`{"stringData":{"round":"%d"}}`, round)
	err := c.Patch(ctx, secret, client.RawPatch(types.MergePatchType, []byte(patch)))
	if !apierrors.IsNotFound(err) {
		return err
	}
	// BMO watches Secrets with this label.
	secret.Labels = map[string]string{"environment.metal3.io": "baremetal"}
	if err := controllerutil.SetOwnerReference(host, secret, c.Scheme()); err != nil {
		return err
	}
	return c.Create(ctx, secret)
}

func onlyIn(namespace string) []string { return []string{"-namespace=" + namespace} }
