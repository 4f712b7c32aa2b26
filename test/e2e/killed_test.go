package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"github.com/onsi/gomega/types"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// killedLab is the name of another lab.
const killedLab = "killed"

var _ = Describe("A lab whose process is killed", Ordered, func() {
	var program string

	BeforeAll(func() {
		var err error
		program, err = gexec.Build("../lab/cmd/lab")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(gexec.CleanupBuildArtifacts)
	})

	DescribeTable("is swept, and other labs stay as they are",
		func(ctx SpecContext, guarded bool, remains types.GomegaMatcher) {
			others := standing()
			up := exec.CommandContext(ctx, program, "up", "--name="+killedLab, "--hosts=0")
			started, err := gexec.Start(up, GinkgoWriter, GinkgoWriter)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				started.Kill().Wait(stopLimit)
				Expect(lab.Sweep(ctx, killedLab)).To(Succeed())
			}, NodeTimeout(stopLimit))
			Eventually(func(g Gomega) {
				if code := started.ExitCode(); code >= 0 {
					StopTrying("the lab has ended").Attach("code", code).Now()
				}
				g.Expect(lab.Leftovers(killedLab)).To(ContainElement(HaveSuffix("(etcd)")))
			}, patiently()...).Should(Succeed())

			if !guarded {
				guard, err := os.FindProcess(guardOf(killedLab))
				Expect(err).NotTo(HaveOccurred())
				Expect(guard.Kill()).To(Succeed())
			}
			started.Kill().Wait(stopLimit)
			Eventually(lab.Leftovers, patiently()...).WithArguments(killedLab).Should(remains)

			Expect(lab.Sweep(ctx, killedLab)).To(Succeed())
			Expect(lab.Leftovers(killedLab)).To(BeEmpty())
			Expect(standing()).To(Equal(others), "another lab was disturbed")
		},
		Entry("when its guard has left only files", NodeTimeout(storyLimit), true, ConsistOf(HavePrefix("folder "))),
		Entry("when its guard was killed before and its machines still run", NodeTimeout(storyLimit), false, ContainElements(
			HavePrefix("process "), HavePrefix("control group "), HavePrefix("network namespace "), HavePrefix("mount "),
			HavePrefix("folder "))),
	)
})

// standing returns the parts of the lab of the stories, and its running machines.
func standing() []string {
	GinkgoHelper()
	found, err := lab.Leftovers(labName)
	Expect(err).NotTo(HaveOccurred())
	// Processes start and end.
	found = slices.DeleteFunc(found, func(thing string) bool { return strings.HasPrefix(thing, "process ") })
	for _, name := range bed.lab.Machines() {
		if bed.lab.Machine(name).Running() {
			found = append(found, "running machine "+name)
		}
	}
	return found
}

// guardOf returns the process that removes a lab after its owner has ended.
func guardOf(name string) int {
	GinkgoHelper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		// The process may have ended since the listing.
		arguments, _ := os.ReadFile(file)
		if strings.HasSuffix(string(arguments), "\x00guard\x00"+name+"\x00") {
			id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			Expect(err).NotTo(HaveOccurred())
			return id
		}
	}
	Fail("lab " + name + " has no guard")
	return 0
}
