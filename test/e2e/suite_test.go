package e2e_test

import (
	"context"
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
	// labName is the name of the lab. A lab of a person has another one.
	labName = "e2e"

	// labHosts are enough for three control-plane nodes, a worker, and one to go to.
	labHosts = 5

	// spine is the label of the stories that every change has to pass.
	spine = "spine"

	// startLimit holds on a machine where everything has to be built first.
	startLimit = 50 * time.Minute

	// stopLimit is for taking the lab away.
	stopLimit = 5 * time.Minute
)

// Limits of the stories, for Eventually: how long at most, and how often to look. They are far above what it takes on an
// idle machine.
func patiently() []any { return []any{10 * time.Minute, 500 * time.Millisecond} }

// bed is what all stories stand on.
var bed struct {
	lab   *lab.Lab
	proxy framework.ClusterProxy
	// explained is the story whose failure was explained last.
	explained string
}

func TestE2E(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("the lab makes machines of Linux namespaces: run this as root on Linux")
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
		Expect(left).To(BeEmpty(), "the lab has to leave nothing behind")
	}, NodeTimeout(stopLimit))
	bed.proxy = framework.NewClusterProxy("lab", running.Management().Kubeconfig, build.Scheme())
}, NodeTimeout(startLimit))

var _ = ReportAfterEach(func(ctx SpecContext, report SpecReport) {
	if report.Failed() && bed.lab != nil {
		explain(ctx, report)
	}
})

// explain collects what explains the failure of a story, unless that was done before: what cleans up after a story takes
// away what explains it.
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
	fmt.Printf("\nWhat explains the failure of %q is in %s (%v)\n", report.FullText(), folder, err)
}
