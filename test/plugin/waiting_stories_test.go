package plugin_test

import (
	"context"
	"io"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/plugin"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// started is a command that waits.
type started struct {
	ended chan ran

	// text and errors are the output so far.
	text, errors *buffer
}

func (c *clusters) start(ctx context.Context, namespace, arguments string) started {
	return startAt(ctx, nil, commandLine(c.source.Kubeconfig, c.target.Kubeconfig, namespace, arguments))
}

// startAt starts a command. It reads answers from the input.
func startAt(ctx context.Context, input io.Reader, line []string) started {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := started{make(chan ran, 1), &buffer{}, &buffer{}}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		code := plugin.Main(ctx, line, plugin.Environment{Input: input, Output: s.text, Errors: s.errors})
		s.ended <- ran{code: code, text: s.text.String(), errors: s.errors.String()}
	}()
	DeferCleanup(func() { stop(); <-gone })
	return s
}

// goesOn requires that the command still waits.
func (s started) goesOn(because string) {
	GinkgoHelper()
	Consistently(s.ended, stage.Quiet).ShouldNot(Receive(), because)
}

// tells waits until the command has printed the words.
func (s started) tells(words string) {
	GinkgoHelper()
	Eventually(func() string { return s.text.String() + s.errors.String() }).Should(ContainSubstring(words))
}

func (s started) ends(code int, words ...string) {
	GinkgoHelper()
	Eventually(s.ended).Should(Receive(end(code, words...)))
}

// says matches a command that printed the words.
func says(words string) types.GomegaMatcher {
	return WithTransform(func(r ran) string { return r.text }, ContainSubstring(words))
}

// describeWaiting has the stories of scripts that wait.
func describeWaiting(c *clusters) {
	It("waits until the move is ready, up to the timeout", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		source := settle(ctx, c.source, namespace)
		source.create(ctx, build.Host("busy", build.State(bmov1alpha1.StateInspecting)))
		Expect(c.run(ctx, namespace, "preflight --wait --timeout 1s")).To(end(1, "host busy is inspecting"))
		waiting := c.start(ctx, namespace, "preflight --wait")
		waiting.goesOn("a host is busy")
		stage.ChangeStatus(ctx, source.client, source.key("busy"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateAvailable
		})
		waiting.ends(0, "Ready: clusterctl move of namespace "+namespace)
	})

	// busy creates a cluster with a host that is being inspected. The returned function ends the inspection.
	busy := func(ctx context.Context) (world, func()) {
		w := settle(ctx, c.source, stage.Namespace(ctx, c.source))
		w.create(ctx, build.Host("busy", build.State(bmov1alpha1.StateInspecting)))
		return w, func() {
			stage.ChangeStatus(ctx, w.client, w.key("busy"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
				host.Status.Provisioning.State = bmov1alpha1.StateAvailable
			})
		}
	}

	It("waits for busy hosts before a move, up to the timeout", func(ctx context.Context) {
		w, _ := busy(ctx)
		Expect(c.run(ctx, w.namespace, "run --timeout 1s")).To(end(1, "Waiting: source: host busy is inspecting",
			"Not done, because:"))
		for _, flag := range []string{"--no-wait", "--dry-run"} {
			Expect(c.run(ctx, w.namespace, "run "+flag)).To(And(end(1, "source: host busy is inspecting"),
				Not(says("Waiting"))), flag)
		}
	})

	It("asks for confirmation once, before it waits", func(ctx context.Context) {
		w, ready := busy(ctx)
		Expect(c.run(ctx, w.namespace, "run --yes=false --timeout 1s")).To(And(end(1, "not confirmed", "1 Cluster, 1 Machine, 2 hosts",
			"begins when these obstacles end: source: host busy is inspecting"), Not(says("Waiting"))))
		person, program := openTerminal()
		moving := startAt(ctx, program, commandLine(c.source.Kubeconfig, c.target.Kubeconfig, w.namespace, "run --yes=false"))
		moving.tells("Type yes to continue")
		Expect(moving.text.String()).NotTo(ContainSubstring("Waiting"))
		_, err := person.WriteString("yes\n")
		Expect(err).NotTo(HaveOccurred())
		moving.tells("Waiting: source: host busy is inspecting")
		ready()
		moving.tells("Parking...")
		Expect(strings.Count(moving.errors.String(), "Type yes")).To(Equal(1))
	})

	It("asks again after the wait if another host would move", func(ctx context.Context) {
		w, ready := busy(ctx)
		person, program := openTerminal()
		moving := startAt(ctx, program, commandLine(c.source.Kubeconfig, c.target.Kubeconfig, w.namespace, "run --yes=false"))
		moving.tells("Type yes to continue")
		_, err := person.WriteString("yes\n")
		Expect(err).NotTo(HaveOccurred())
		moving.tells("Waiting: source: host busy is inspecting")
		w.create(ctx, build.Host("young", build.Available()))
		ready()
		moving.tells("The Clusters or hosts to move have changed: BareMetalHost young is new")
		_, err = person.WriteString("no\n")
		Expect(err).NotTo(HaveOccurred())
		moving.ends(1, "1 Cluster, 1 Machine, 3 hosts", "not confirmed")
		Expect(w.isPaused(ctx)).To(BeFalse())
	})

	It("stops waiting for a busy host when another obstacle requires an administrator", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		source := settle(ctx, c.source, namespace)
		source.create(ctx, build.Host("busy", build.State(bmov1alpha1.StateInspecting)))
		waiting := c.start(ctx, namespace, "run")
		waiting.tells("host busy is inspecting")
		source.create(ctx, build.Metal3Machine("early", clusterName))
		waiting.ends(1, "Not done, because:", "host busy is inspecting", "Metal3Machine early has no ownerReference")
		Expect(c.run(ctx, namespace, "run")).To(And(end(1, "Metal3Machine early has no ownerReference"),
			Not(says("Waiting"))))
	})

	It("waits through an outage of the target", func(ctx context.Context) {
		w, _ := busy(ctx)
		line := stage.NewLine(c.target.Config)
		file, err := c.target.WriteKubeconfig("wait-line", line.Config)
		Expect(err).NotTo(HaveOccurred())
		waiting := startAt(ctx, nil, commandLine(c.source.Kubeconfig, file, w.namespace, "run"))
		waiting.tells("Waiting: source: host busy is inspecting")
		line.Cut()
		waiting.tells("Waiting: reading the target cluster")
		Expect(line.Mend()).To(Succeed())
		w.create(ctx, build.Metal3Machine("early", clusterName))
		waiting.ends(1, "Not done, because:", "Metal3Machine early has no ownerReference")
	})

	It("watches until all hosts are parked, have arrived, and are adopted, up to the timeout", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source)
		source := settle(ctx, c.source, namespace)
		watch := func(goal string) started {
			return c.start(ctx, namespace, "status --watch --interval 50ms --until="+goal)
		}
		Expect(c.run(ctx, namespace, "status --watch --interval 50ms --timeout 1s --until=parked")).To(end(1, "1 Running"))

		By("parking the hosts")
		parked, arrived, adopted := watch("parked"), watch("arrived"), watch("adopted")
		parked.goesOn("nothing is paused")
		source.park(ctx)
		parked.ends(0, "1 Parked")

		By("moving them")
		Expect(c.target.Client.Create(ctx, build.Namespace(namespace))).To(Succeed())
		target := settle(ctx, c.target, namespace)
		arrived.goesOn("the source still has them")
		source.discard(ctx, &bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "host"}})
		source.discard(ctx, &infrav1.Metal3Cluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}})
		source.discard(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}})
		arrived.ends(0, "1 Running")

		By("handing the VIP over")
		target.hold(ctx, infrav1.HolderControlPlane, 0)
		adopted.goesOn("the Ironic has registered no host")
		target.hold(ctx, infrav1.HolderControlPlane, 1)
		adopted.ends(0, "1 of 1")
	})
}

// park does what the managers do when clusterctl pauses a Cluster.
func (w world) park(ctx context.Context) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		host.Status.LastUpdated = nil
	})
	stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)
	})
	stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = ptr.To(true)
	})
}
