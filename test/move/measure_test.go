package move_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/fakeironic"
)

// The goals: seconds for goalHosts hosts, and a number of hosts or steps.
const (
	goalHosts = 100
	goalMove  = 60
	goalLook  = 2
	goalAdopt = 30
	goalNone  = 0
)

// measuredIronic is an Ironic that can be replaced by an empty one.
type measuredIronic interface {
	access() ironicapi.Endpoint

	// empty replaces the Ironic, with the same address, credentials and certificate.
	empty(ctx context.Context)

	// host gives a host a management controller that this Ironic reaches.
	host(host *bmov1alpha1.BareMetalHost)

	// images are the kernel and the ramdisk of the agent, empty for the default, and the image of nodes. With a nil image,
	// machines keep their own.
	images() (kernel, ramdisk string, node *infrav1.Image)

	// acts counts the actions on power, disks and media of each machine so far, by its name.
	acts() map[string]int
}

// fakeMeasured is the Ironic in memory.
type fakeMeasured struct{ *fakeironic.Server }

func (f fakeMeasured) access() ironicapi.Endpoint               { return f.Access() }
func (f fakeMeasured) empty(context.Context)                    { f.Empty() }
func (f fakeMeasured) host(*bmov1alpha1.BareMetalHost)          {}
func (f fakeMeasured) images() (string, string, *infrav1.Image) { return "", "", nil }
func (f fakeMeasured) acts() map[string]int                     { return actsOf(f.Server) }

// actsOf counts the requests to an Ironic in memory that act on machines. It omits requests that only change its
// database.
func actsOf(ironic *fakeironic.Server) map[string]int {
	counts := map[string]int{}
	for _, call := range ironic.Calls() {
		if !slices.Contains([]string{"enroll", "port", "update", "manage", "adopt"}, call.What) {
			counts[strings.Replace(call.Node, "~", "-", 1)]++
		}
	}
	return counts
}

// harmed returns the hosts of a trace whose machines an action has changed since, and the lost hosts.
func (w *world) harmed(ctx context.Context, since trace, before, now map[string]int) []string {
	GinkgoHelper()
	var found []string
	here, there := w.hosts(ctx, Default, w.here), w.hosts(ctx, Default, w.there)
	for name := range since.pictures {
		machine := w.namespace + "-" + name
		if now[machine] != before[machine] || here[name] == nil && there[name] == nil {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// describeMeasurements measures the goals of the documents. The only assertion is that no host is changed.
func describeMeasurements(c *clusters) {
	It("measures a pivot of many hosts", func(ctx context.Context) {
		w := c.world(ctx)
		var behind measuredIronic = fakeMeasured{w.ironic}
		if *ironicKind == ironicReal {
			behind = newRealIronic(ctx)
		}
		kernel, ramdisk, image := behind.images()
		w.image = image
		e := newEndpoint(behind.access())
		w.cluster(ctx, "cluster", e.at())
		// Hosts of other namespaces would wait for this endpoint, because one BMO serves all of them.
		DeferCleanup(func(ctx context.Context) {
			for _, at := range []*side{w.here, w.there} {
				w.clear(ctx, at)
			}
		})
		w.open(ctx, e, "cluster")
		w.silent(ctx, "cluster")
		DeferCleanup(c.useIronic, c.ironic.Access(), "", "")
		c.useIronic(ctx, e.access(), kernel, ramdisk)
		fmt.Printf("making %d hosts and machines\n", *hosts)
		for i := range *hosts {
			name := fmt.Sprintf("host-%03d", i)
			w.host(ctx, name, behind.host)
			if i == 0 {
				w.machine(ctx, "cluster", name, controlPlane())
			} else {
				w.machine(ctx, "cluster", name)
			}
		}
		w.settled(ctx)
		was, acts := w.trace(ctx), behind.acts()

		fmt.Println("moving them")
		began := time.Now()
		journey := w.begin(ctx)
		paused, quietAfter := w.stages(ctx, began)
		w.duringCopy(ctx)
		copied := time.Since(began)
		w.arrive(ctx, journey)
		moved := time.Since(began)
		w.settled(ctx)
		running := time.Since(began)

		fmt.Println("handing the endpoint over")
		// BMO reconciles each host once a minute, so some while Ironic is replaced. These hosts get other IDs.
		before := w.hosts(ctx, Default, w.here)
		behind.empty(ctx)
		e.expect(before)
		told := w.nudges(ctx, "ControlPlane/host-000")
		began = time.Now()
		e.heldBy(clusterID + "-host-000")
		Eventually(e.looks).WithPolling(glance).WithTimeout(4 * patience).Should(HaveLen(*hosts))
		looked := time.Since(began)
		telling := nudged(told.all(*hosts), e.looks(), began)
		w.eventuallyActive(ctx, e)
		adopted := time.Since(began)
		w.settled(ctx)
		harmed := w.harmed(ctx, was, acts, behind.acts())
		table(fmt.Sprintf("%d hosts with a %s Ironic", *hosts, *ironicKind), slices.Concat([]row{
			timed("clusterctl move, with the time until they are quiet", moved, goalMove),
			timed("  of this, until clusterctl has found all objects and paused the Cluster", paused, 0),
			timed("  until all hosts are parked", quietAfter, 0),
			timed("  until clusterctl has noticed and copied the first host", copied, 0),
			timed("until all of them run in the target", running, 0),
			timed("change of the holder to the first look at each of them", looked, goalLook),
		}, telling, []row{
			timed("change of the holder until all of them are adopted", adopted, goalAdopt),
			counted("steps by hand, besides clusterctl move and the change of the holder", len(w.steps)),
			counted("hosts re-provisioned, power-cycled or lost", len(harmed)),
		}))
		Expect(harmed).To(BeEmpty())
	})
}

// useIronic configures both BMOs for another Ironic.
func (c *clusters) useIronic(ctx context.Context, access ironicapi.Endpoint, kernel, ramdisk string) {
	GinkgoHelper()
	for _, at := range []*side{c.source, c.target} {
		at.bmo.Ironic, at.bmo.Kernel, at.bmo.Ramdisk = access, kernel, ramdisk
		at.restartBMO(ctx)
	}
}

// stages returns the time until the Cluster is paused, and the time until block-move is removed.
func (w *world) stages(ctx context.Context, began time.Time) (paused, quiet time.Duration) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		cluster := &clusterv1.Cluster{}
		g.Expect(w.here.client.Get(ctx, w.key("cluster"), cluster)).To(Succeed())
		g.Expect(cluster.Spec.Paused).To(HaveValue(BeTrue()))
	}).WithPolling(glance).Should(Succeed())
	paused = time.Since(began)
	Eventually(func(g Gomega) {
		infra := &infrav1.Metal3Cluster{}
		g.Expect(w.here.client.Get(ctx, w.key("cluster"), infra)).To(Succeed())
		g.Expect(infra.Annotations).NotTo(HaveKey(infrav1.BlockMoveAnnotation))
	}).WithPolling(glance).WithTimeout(4 * patience).Should(Succeed())
	return paused, time.Since(began)
}

// eventuallyActive waits until the Ironic behind an endpoint has adopted all hosts.
func (w *world) eventuallyActive(ctx context.Context, e *endpoint) {
	GinkgoHelper()
	observer, err := ironicapi.New(e.access())
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() int {
		count := 0
		for name, state := range observer.Observe(ctx, nil).Nodes {
			if strings.HasPrefix(name, w.namespace+"~") && state == "active" {
				count++
			}
		}
		return count
	}).WithTimeout(4 * patience).Should(Equal(*hosts))
}

// row is one line of the table.
type row struct{ what, measured, goal string }

// timed is a row of a time, with a goal in seconds for goalHosts. Zero means no goal.
func timed(what string, took time.Duration, goal float64) row {
	made := row{what: what, measured: fmt.Sprintf("%.1f s", took.Seconds()), goal: "-"}
	if goal > 0 && *hosts == goalHosts {
		made.goal = fmt.Sprintf("%.0f s", goal)
	}
	return made
}

// counted is a row of a number whose goal is zero.
func counted(what string, count int) row {
	return row{what: what, measured: strconv.Itoa(count), goal: strconv.Itoa(goalNone)}
}

// table prints the measured values beside the goals.
func table(title string, rows []row) {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%-70s %10s %10s\n", title, "measured", "goal")
	for _, row := range rows {
		fmt.Fprintf(&text, "%-70s %10s %10s\n", row.what, row.measured, row.goal)
	}
	_, _ = fmt.Fprintln(os.Stdout, text.String())
}
