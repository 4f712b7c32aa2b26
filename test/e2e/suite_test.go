package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/test/framework"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

const (
	// labName is the name of the lab. A lab of a developer has another one.
	labName = "e2e"

	// labHosts are enough for three control-plane nodes, a worker, and a replacement.
	labHosts = 5

	// spine is the label of the stories that run on every change.
	spine = "spine"

	// startLimit includes the build of all programs.
	startLimit = 50 * time.Minute

	// stopLimit is the time limit for the removal of the lab.
	stopLimit = 5 * time.Minute
)

// controlPlanes is the number of control-plane nodes of the cluster with an Ironic endpoint. Three survive the loss of one.
// The spine requires one.
var controlPlanes = flag.Int("e2e.control-planes", 3, "Number of control-plane nodes. The spine requires 1, other stories 3.")

// rolled is the time limit for the replacement of one control-plane node. Managers that are connected to the API server of
// a removed etcd member wait until they lose their leases, and those of Cluster API last a minute.
const rolled = 7 * time.Minute

// patiently returns the limit and the interval of Eventually. The limit is far above the duration on an idle machine.
func patiently() []any { return []any{20 * time.Minute, 2 * time.Second} }

// bed is the shared state of all stories.
var bed struct {
	lab   *lab.Lab
	proxy framework.ClusterProxy
	// explained is the last story whose failure was explained.
	explained string
}

func TestE2E(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("requires root on Linux: the lab uses Linux namespaces")
	}
	specs.Run(t, "end to end")
}

var _ = BeforeSuite(func(ctx context.Context) {
	started := time.Now()
	running, err := lab.Start(ctx, lab.Options{
		Name: labName, Hosts: labHosts, Later: true,
		Progress: func(format string, args ...any) {
			fmt.Printf("[lab %6.1fs] %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
		},
	})
	Expect(err).NotTo(HaveOccurred())
	bed.lab = running
	DeferCleanup(func(ctx context.Context) {
		Expect(running.Stop(ctx)).To(Succeed())
		left, err := lab.Leftovers(labName)
		Expect(err).NotTo(HaveOccurred())
		Expect(left).To(BeEmpty(), "the lab must leave nothing behind")
	}, NodeTimeout(stopLimit))
	bed.proxy = framework.NewClusterProxy("lab", running.Management().Kubeconfig, build.Scheme())
}, NodeTimeout(startLimit))

var _ = ReportAfterEach(func(ctx SpecContext, report SpecReport) {
	if report.Failed() && bed.lab != nil {
		explain(ctx, report)
	}
})

// explain collects the data about the failure of a story once, before the cleanup of the story deletes it.
func explain(ctx context.Context, report SpecReport) {
	location := report.LeafNodeLocation
	name := fmt.Sprintf("%s-line-%d", filepath.Base(location.FileName), location.LineNumber)
	if bed.explained == name {
		return
	}
	bed.explained = name
	folder, err := filepath.Abs(filepath.Join("..", "..", "out", "e2e", name))
	if err == nil {
		err = bed.lab.CollectArtefacts(ctx, folder)
	}
	fmt.Printf("\nThe data about the failure of %q is in %s (%v)\n", report.FullText(), folder, err)
}
