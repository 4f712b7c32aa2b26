// Package specs runs a Ginkgo suite in go test, in the same way for all suites. It reports the duration of each spec
// and the skipped specs. For go test a suite is one test.
package specs

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/reports"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/seed"
)

// Run runs the specs of the package. It shows logs of controllers for failed specs.
func Run(t *testing.T, name string) {
	t.Helper()
	klog.SetOutput(ginkgo.GinkgoWriter)
	ctrl.SetLogger(klog.Background())
	gomega.RegisterFailHandler(ginkgo.Fail)
	// Without this call, an Eventually with a context waits until the suite ends.
	gomega.EnforceDefaultTimeoutsWhenUsingContexts()
	ginkgo.ReportAfterSuite("write the report", write)
	suite, reporter := ginkgo.GinkgoConfiguration()
	// The seed decides the order of containers.
	suite.RandomSeed = int64(seed.Chosen()) //nolint:gosec // Any number is a seed.
	ginkgo.RunSpecs(t, name, suite, reporter)
}

func write(report ginkgo.Report) {
	file, err := reports.File(report.SuitePath, reports.Specs)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	if file != "" {
		gomega.Expect(reporters.GenerateJSONReport(report, file)).To(gomega.Succeed())
	}
}
