package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// step is one call of go test, or of another command.
type step struct {
	name     string
	packages []string
	// race compiles with the race detector.
	race bool
	// whole also runs the tests that the short tests leave to the nightly tier.
	whole bool
	// parallel is the number of packages to run at the same time. Many tests wait for programs, so it exceeds the
	// number of processors.
	parallel int
	// timeout ends a test binary. On every change it is below the 90 minutes of CI.
	timeout time.Duration
	// story is the regular expression of the chosen stories. If it is not empty, the step fails if it ran none.
	story string
	// goFlags are for go test, args for the test binaries.
	goFlags, args []string
	// live prints the output of the tests while they run. Otherwise only failures are printed.
	live bool
	// beside runs the step at the same time as the previous one.
	beside bool
	// nice is the nice value of the session of the step. Steps beside it with a lower value get more processor time.
	nice int
	// ahead is the package that takes longest. It gets more processor time than the others. Empty if all get the same.
	ahead string
	// environment is added to that of this program.
	environment []string
	// passed runs after the step has passed. Nil does nothing.
	passed func() error

	// command runs instead of go test.
	command []string
}

// tier is an ordered list of steps.
type tier struct {
	name  string
	steps []step
	// goOn runs the other steps after one that could not run. They run after failed tests anyway.
	goOn bool
	// omitted describes what the tier omits, and why. notes are further lines of the summary.
	omitted, notes []string
}

// Patterns of packages. All other packages run with the race detector.
var (
	// sequential packages start no goroutines in the code under test, so the race detector would find nothing.
	sequential = []string{
		"./api", "./baremetal", "./internal/departure", "./internal/guard/policy", "./internal/guard/term",
		"./internal/secrets", "./internal/timeline", "./internal/webhooks/rule", "./internal/webhooks/v1beta2",
		"./test/compat", "./test/manifests",
	}

	// ofProject are the tools of developers, with the checks of documents, manifests and linters.
	ofProject = []string{"./hack"}

	// withKeepalived elects VIP holders by advertisements, and the terms of the guard end if Ironic takes more than ten
	// seconds to start again. The packages at the same time therefore yield to them. They wait most of their time.
	withKeepalived = []string{"./internal/guard", "./baremetal/keepalived"}

	// labItself are the packages that stories on real nodes depend on. Their tests run if they, the pods of the lab or the
	// manifests that they install changed.
	labItself  = []string{"./test/lab", "./internal/testkit"}
	installed  = []string{"./config"}
	podsOfNode = []string{
		"./baremetal/controlplane", "./baremetal/ironic", "./baremetal/keepalived", "./baremetal/vip", "./cmd/guard",
		"./internal/guard",
	}

	// withRelease are stories with whole managers, the plugin and the real programs of Cluster API, and moves by
	// clusterctl with BMO on both sides. The suites of controllers run the same code with the race detector on every
	// change, and these run with it in the nightly tier.
	withRelease = []string{"./test/integration", "./test/move", "./test/plugin", "./test/rbac", "./test/upgrade"}

	// onNodes are the packages with the stories on real nodes, and with the specs of Cluster API.
	onNodes = []string{"./test/e2e", "./test/e2e/clusterapi"}
)

// stepLimit is the time limit of a test binary without nodes, spineLimit that of stories on nodes on every change, and
// nightLimit that of all stories or specs of a package on nodes.
const (
	stepLimit  = 40 * time.Minute
	spineLimit = 85 * time.Minute
	nightLimit = 150 * time.Minute
)

// roomy lets Go programs use more memory, and collect garbage less often.
func roomy() []string { return []string{"GOGC=300"} }

func plan(ctx context.Context, name string, chosen options) (*tier, error) {
	switch name {
	case "checks":
		return planChecks(ctx)
	case "test":
		return planTest(ctx, chosen)
	case "e2e":
		return planE2E(chosen), nil
	case "nightly":
		return planNightly(ctx, chosen)
	}
	return nil, fmt.Errorf("unknown tier %q: name one of checks, test, e2e, nightly, times", name)
}

// planChecks checks the project itself, not its programs.
func planChecks(ctx context.Context) (*tier, error) {
	packages, err := listPackages(ctx)
	if err != nil {
		return nil, err
	}
	packages = slices.DeleteFunc(packages, func(path string) bool { return !matches(path, ofProject) })
	return &tier{name: "checks", steps: []step{{
		name: "documents, manifests and tools", packages: packages, parallel: 3, timeout: stepLimit, environment: roomy(),
	}}}, nil
}

func planTest(ctx context.Context, chosen options) (*tier, error) {
	packages, err := listPackages(ctx)
	if err != nil {
		return nil, err
	}
	var plain, raced, lab []string
	for _, path := range packages {
		switch {
		case matches(path, ofProject), matches(path, withRelease), matches(path, onNodes):
		case slices.Contains(withKeepalived, path):
		case matches(path, labItself):
			lab = append(lab, path)
		case matches(path, sequential):
			plain = append(plain, path)
		default:
			raced = append(raced, path)
		}
	}
	// Each step ends with a few packages that wait most of their time, so steps overlap.
	result := &tier{name: "test", steps: []step{
		{
			name: "unit tests and stories", packages: plain, parallel: 3, timeout: stepLimit, environment: roomy(),
			nice: lowestPriority,
		},
		{
			name: "suites of controllers, and other goroutines", packages: raced, race: true, parallel: 5, timeout: stepLimit,
			environment: roomy(), beside: true, nice: lowestPriority, ahead: "./controllers/metal3machine",
		},
		{
			name: "keepalived, and the guard with Ironic", packages: slices.Clone(withKeepalived), race: true,
			timeout: stepLimit, beside: true,
		},
	}}
	unchanged, err := newMark("lab", slices.Concat(labItself, podsOfNode, installed, inputs())...)
	if err != nil {
		return nil, err
	}
	if !chosen.lab && unchanged.isSet() {
		result.omitted = append(result.omitted, fmt.Sprintf(
			"the tests of the lab itself: nothing in %s or in the pods of its nodes changed since they passed (LAB=always "+
				"runs them)", strings.Join(labItself, ", ")))
		return result, nil
	}
	result.steps = append(result.steps, step{
		name: "tests of the lab itself", packages: lab, race: true, parallel: 4, timeout: stepLimit, passed: unchanged.set,
	})
	return result, nil
}

// planE2E runs the stories with the label spine, and then the release on API servers: side by side on a slow machine,
// nodes lost the VIP and tests missed their time limits. The spine has one control-plane node, the nightly tier three.
// It runs nothing else if the user chose stories.
func planE2E(chosen options) *tier {
	if chosen.story != "" {
		stories := endToEnd("stories on real nodes", spineLimit, onNodes, "-ginkgo.focus="+chosen.story)
		stories.story = chosen.story
		return &tier{name: "e2e", steps: []step{stories}}
	}
	spine := endToEnd("the spine on real nodes", spineLimit, onNodes[:1],
		"-ginkgo.label-filter=spine", "-e2e.control-planes=1")
	return &tier{name: "e2e", steps: []step{spine, onAPIServer()}}
}

// onAPIServer returns the step without nodes. Each of its longest packages runs several API servers, so two packages at
// the same time keep two processors busy.
func onAPIServer() step {
	return step{
		name: "the release on API servers", packages: slices.Clone(withRelease), parallel: 2, timeout: stepLimit,
		environment: roomy(),
	}
}

// endToEnd returns a step with stories on real nodes, one package after the other. Ginkgo ends a suite at its time
// limit before go test does, so that the lab is removed and the artefacts are stored.
func endToEnd(name string, limit time.Duration, packages []string, args ...string) step {
	return step{
		name: name, packages: packages, parallel: 1, timeout: limit, live: true,
		args: append([]string{"-ginkgo.v", fmt.Sprintf("-ginkgo.timeout=%s", limit-5*time.Minute)}, args...),
	}
}

// listPackages returns the packages that have tests.
func listPackages(ctx context.Context) ([]string, error) {
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}`
	command := exec.CommandContext(ctx, "go", "list", "-f", format, "./...")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m").Output()
	if err != nil {
		return nil, fmt.Errorf("reading the name of the module: %w", err)
	}
	var packages []string
	for path := range strings.FieldsSeq(string(output)) {
		packages = append(packages, "."+strings.TrimPrefix(path, strings.TrimSpace(string(module))))
	}
	return packages, nil
}

// matches reports whether a package is below one of the patterns.
func matches(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return path == pattern || strings.HasPrefix(path, pattern+"/")
	})
}
