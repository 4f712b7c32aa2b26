// Package specs runs a Ginkgo suite below go test, in the same way for all suites, and writes what each spec took.
//
// go test sees a suite as one test. The report is how hack/tests learns of the specs in it: how long each took, which
// were skipped, and why.
package specs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// ReportsVariable is the environment variable that names the folder for reports. No report is written without it.
const ReportsVariable = "SPEC_REPORTS"

// Run runs the specs of the package. Logs of controllers appear where a spec fails.
func Run(t *testing.T, name string) {
	t.Helper()
	klog.SetOutput(ginkgo.GinkgoWriter)
	ctrl.SetLogger(klog.Background())
	gomega.RegisterFailHandler(ginkgo.Fail)
	if folder := os.Getenv(ReportsVariable); folder != "" {
		ginkgo.ReportAfterSuite("write the report", func(report ginkgo.Report) { write(folder, report) })
	}
	ginkgo.RunSpecs(t, name)
}

// write writes the report of a suite. The process ID keeps apart suites whose folders have the same name.
func write(folder string, report ginkgo.Report) {
	file := fmt.Sprintf("%s-%d.json", filepath.Base(report.SuitePath), os.Getpid())
	gomega.Expect(reporters.GenerateJSONReport(report, filepath.Join(folder, file))).To(gomega.Succeed())
}
