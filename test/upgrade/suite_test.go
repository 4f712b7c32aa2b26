package upgrade_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/installation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// patience is the time limit of each wait. BMO polls Ironic every 10 seconds.
	patience = 10 * time.Minute

	pollEvery = 100 * time.Millisecond

	// quiet is the time in which nothing may happen.
	quiet = 2 * time.Second

	// managerVariable names a manager of CAPM3.
	managerVariable = "CAPM3_MANAGER"
)

func TestUpgrade(t *testing.T) { specs.Run(t, "Upgrade from CAPM3") }

// world is a management cluster with objects of CAPM3.
type world struct {
	server    *env.Server
	namespace string
	manager   *installation.Manager

	// capm3 is the running manager of CAPM3. Nil if none runs.
	capm3 *process.Child

	// rendered and addresses are the Secrets and the addresses that CAPM3 gave the machines of dataNamespace. Nil without
	// CAPM3.
	dataNamespace       string
	rendered, addresses map[string]string

	// answers are the answers to the checks in the document before the upgrade, by command.
	answers map[string]string

	// hosts and machines are the last objects of CAPM3, by name.
	hosts    map[string]bmov1alpha1.BareMetalHost
	machines map[string]infrav1.Metal3Machine
}

// The specs are the life of one management cluster, in order.
var _ = Describe("An upgrade from CAPM3", Ordered, func() {
	w := &world{}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		SetDefaultConsistentlyDuration(quiet)
		w.server = stage.Start(ctx, env.Options{
			Definitions: []components.Group{
				components.Provider, components.ClusterAPI, components.BaremetalOperator, components.AddressManager,
				components.InClusterAddressManager,
			},
			ControllerManager: true,
			APIServerFlags:    []string{"enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
		})
		Expect(managers.StartAddressManager(ctx, w.server, "")).To(Succeed())
		Expect(managers.StartInClusterAddressManager(ctx, w.server)).To(Succeed())
		w.namespace = stage.Namespace(ctx, w.server)
		stage.RunBMO(ctx, w.server)
		DeferCleanup(func() {
			if w.manager != nil {
				w.manager.Stop()
			}
		})
	})

	describeRendering(w)
	describeTakeover(w)
	describeComparison(w)
	describeReturn(w)
})

// startCAPM3 starts the manager of CAPM3, and returns the address of its webhooks. It skips the spec without a
// manager.
func (w *world) startCAPM3(ctx context.Context, name string) env.WebhookServer {
	GinkgoHelper()
	path := os.Getenv(managerVariable)
	if path == "" {
		Skip(managerVariable + " does not name a manager of CAPM3")
	}
	webhooks, err := w.server.NewWebhookServer(name)
	Expect(err).NotTo(HaveOccurred())
	health, err := w.server.Group().Address()
	Expect(err).NotTo(HaveOccurred())
	diagnostics, err := w.server.Group().Address()
	Expect(err).NotTo(HaveOccurred())
	w.capm3, err = w.server.Group().Start(process.Program{
		Name: name, Path: path, Env: []string{"KUBECONFIG=" + w.server.Kubeconfig},
		Args: []string{
			fmt.Sprintf("--webhook-port=%d", webhooks.Port), "--webhook-cert-dir=" + webhooks.CertDir,
			"--health-addr=" + health, "--diagnostics-address=" + diagnostics, "--insecure-diagnostics=true",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func(g Gomega) {
		g.Expect(w.capm3.Done()).NotTo(BeClosed(), "CAPM3 ended:\n%s", w.capm3.LogTail())
		g.Expect(installation.Status(ctx, http.DefaultClient, "http://"+health+"/readyz", "")).To(Equal(http.StatusOK))
	}).Should(Succeed())
	return webhooks
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

func (w *world) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(build.CreateWithStatus(ctx, w.server.Client, object)).To(Succeed())
}

// createHost creates a host with its BMC.
func (w *world) createHost(ctx context.Context, host *bmov1alpha1.BareMetalHost) {
	GinkgoHelper()
	Expect(build.CreateHost(ctx, w.server.Client, host)).To(Succeed())
}

func (w *world) machine(ctx context.Context, g Gomega, name string) *infrav1.Metal3Machine {
	machine := &infrav1.Metal3Machine{}
	g.Expect(w.server.Client.Get(ctx, w.key(name), machine)).To(Succeed())
	return machine
}

func (w *world) host(ctx context.Context, g Gomega, name string) *bmov1alpha1.BareMetalHost {
	host := &bmov1alpha1.BareMetalHost{}
	g.Expect(w.server.Client.Get(ctx, w.key(name), host)).To(Succeed())
	return host
}

// recordObjects stores the current hosts and machines.
func (w *world) recordObjects(ctx context.Context) {
	GinkgoHelper()
	w.hosts, w.machines = map[string]bmov1alpha1.BareMetalHost{}, map[string]infrav1.Metal3Machine{}
	var hosts bmov1alpha1.BareMetalHostList
	Expect(w.server.Client.List(ctx, &hosts, client.InNamespace(w.namespace))).To(Succeed())
	for _, host := range hosts.Items {
		w.hosts[host.Name] = host
	}
	var machines infrav1.Metal3MachineList
	Expect(w.server.Client.List(ctx, &machines, client.InNamespace(w.namespace))).To(Succeed())
	for _, machine := range machines.Items {
		w.machines[machine.Name] = machine
	}
}

// untouched expects unchanged hosts, with the same power and image.
func (w *world) untouched(ctx context.Context) {
	GinkgoHelper()
	for name, before := range w.hosts {
		now := w.host(ctx, Default, name)
		Expect(now.UID).To(Equal(before.UID), name)
		// CAPM3 may have written another version of the kind.
		if before.Spec.ConsumerRef != nil {
			before.Spec.ConsumerRef.APIVersion = now.Spec.ConsumerRef.APIVersion
		}
		Expect(now.Spec).To(Equal(before.Spec), name)
	}
}

// oldConditions returns the conditions in the format of v1beta1 that are true, of the Metal3Cluster and of all machines.
func (w *world) oldConditions(ctx context.Context, g Gomega) []string {
	infra := &infrav1.Metal3Cluster{}
	g.Expect(w.server.Client.Get(ctx, w.key(clusterName), infra)).To(Succeed())
	statuses := map[string]*infrav1.DeprecatedStatus{clusterName: infra.Status.Deprecated}
	for name := range w.machines {
		statuses[name] = w.machine(ctx, g, name).Status.Deprecated
	}
	var found []string
	for name, status := range statuses {
		if status == nil || status.V1Beta1 == nil {
			continue
		}
		for _, condition := range status.V1Beta1.Conditions {
			if condition.Status == corev1.ConditionTrue {
				found = append(found, fmt.Sprintf("%s: %s", name, condition.Type))
			}
		}
	}
	return found
}

// quiet waits until nothing writes hosts and machines.
func (w *world) quiet(ctx context.Context) {
	GinkgoHelper()
	versions := func(g Gomega) []string {
		var list []string
		for name := range w.machines {
			list = append(list, name+" "+w.machine(ctx, g, name).ResourceVersion)
		}
		for name := range w.hosts {
			list = append(list, name+" "+w.host(ctx, g, name).ResourceVersion)
		}
		slices.Sort(list)
		return list
	}
	before := versions(Default)
	Consistently(versions).Should(Equal(before))
}

// fenceAnnotation marks the last event that counts.
const fenceAnnotation = "example.com/fence"

// unready records machines that were not ready, with the reason.
type unready struct {
	seen   map[string]string
	fenced atomic.Bool
}

// watch records machines that are not ready until the returned function is called.
func (w *world) watch(ctx context.Context) func() map[string]string {
	GinkgoHelper()
	watching, err := client.NewWithWatch(w.server.Config, client.Options{Scheme: build.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	events, err := watching.Watch(ctx, &infrav1.Metal3MachineList{}, client.InNamespace(w.namespace))
	Expect(err).NotTo(HaveOccurred())
	found := &unready{seen: map[string]string{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		found.read(events.ResultChan())
	}()
	return func() map[string]string {
		// All events before this one have arrived with it.
		fence := w.machine(ctx, Default, machineName(0))
		metav1.SetMetaDataAnnotation(&fence.ObjectMeta, fenceAnnotation, "")
		Expect(w.server.Client.Update(ctx, fence)).To(Succeed())
		Eventually(found.fenced.Load).Should(BeTrue())
		events.Stop()
		<-ended
		return found.seen
	}
}

func (u *unready) read(events <-chan watch.Event) {
	for event := range events {
		machine, isMachine := event.Object.(*infrav1.Metal3Machine)
		if !isMachine {
			continue
		}
		if ready := conditions.Get(machine, infrav1.ReadyCondition); ready == nil || ready.Status != metav1.ConditionTrue {
			u.seen[machine.Name] = fmt.Sprintf("%+v", ready)
		}
		if _, last := machine.Annotations[fenceAnnotation]; last {
			u.fenced.Store(true)
		}
	}
}

func (w *world) stopCAPM3() {
	GinkgoHelper()
	w.capm3.Kill()
	Eventually(w.capm3.Done()).Should(BeClosed())
}

// eventually waits until a condition of a Metal3Machine matches.
func (w *world) eventually(ctx context.Context, name, conditionType string, want types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		conditions := w.machine(ctx, g, name).Status.Conditions
		g.Expect(conditions).To(stage.HaveCondition(conditionType, want), "%s: %+v", name, conditions)
	}).Should(Succeed())
}

// released deletes a Metal3Machine and waits until it is deleted and its host has no consumer.
func (w *world) released(ctx context.Context, name string) {
	GinkgoHelper()
	machine := w.machine(ctx, Default, name)
	Expect(w.server.Client.Delete(ctx, machine)).To(Succeed())
	w.gone(ctx, name, machine)
	Expect(w.host(ctx, Default, hostOf(name)).Spec.ConsumerRef).To(BeNil())
}

// gone waits until an object does not exist.
func (w *world) gone(ctx context.Context, name string, object client.Object) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(w.server.Client.Get(ctx, w.key(name), object)).To(
			MatchError(apierrors.IsNotFound, "IsNotFound"), "%s still exists", name)
	}).Should(Succeed())
}

// hostAnnotation returns namespace and name of the host that a machine has recorded.
func hostAnnotation(machine *infrav1.Metal3Machine) (namespace, name string) {
	namespace, name, _ = strings.Cut(machine.Annotations[infrav1.HostAnnotation], "/")
	return namespace, name
}
