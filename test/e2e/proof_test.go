package e2e_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
)

// ironicLogs are the logs of all Ironics of a machine. ironicWork matches the lines at the start of a change of a
// machine: power, inspection, cleaning or deployment. Registration and adoption do not match.
const (
	ironicLogs = "*metal3-ironic-*/ironic/*.log"
	ironicWork = `, requested state is '|] Executing |moved to provision state "` +
		`(inspecting|cleaning|deploying|deleting|rebuild|servicing|rescuing|unrescuing)"`
)

// picture is a host with all fields that a move must not change.
type picture struct {
	Labels, Annotations map[string]string
	Finalizers          []string
	Spec                bmov1alpha1.BareMetalHostSpec
	Status              bmov1alpha1.BareMetalHostStatus
}

// pictures returns the pictures of the hosts, with exceptions.
func (e *endpoint) pictures(ctx context.Context, g Gomega, except ...string) map[string]picture {
	return picturesOf(hostsIn(ctx, g, e.home), except...)
}

// picturesOf returns the pictures of hosts, with exceptions.
func picturesOf(hosts []bmov1alpha1.BareMetalHost, except ...string) map[string]picture {
	taken := map[string]picture{}
	for _, host := range hosts {
		if slices.Contains(except, host.Name) {
			continue
		}
		status := host.Status
		// LastUpdated is the time of the last change, BMO counts errors again, and it reads the power later: the
		// requests to the BMCs show whether it changed. The other fields contain versions of objects, which a move
		// changes, and BMO detects again that a host is detached.
		status.LastUpdated, status.ErrorCount, status.PoweredOn = nil, 0, false
		status.TriedCredentials, status.GoodCredentials = bmov1alpha1.CredentialsStatus{}, bmov1alpha1.CredentialsStatus{}
		status.OperationHistory.Register = bmov1alpha1.OperationMetric{}
		status.Conditions = slices.Clone(status.Conditions)
		for i := range status.Conditions {
			status.Conditions[i].ObservedGeneration, status.Conditions[i].LastTransitionTime = 0, metav1.Time{}
		}
		taken[host.Name] = picture{
			Labels: host.Labels, Annotations: host.Annotations, Finalizers: host.Finalizers, Spec: host.Spec, Status: status,
		}
	}
	return taken
}

// untilSame waits until all hosts are unchanged.
func (e *endpoint) untilSame(ctx context.Context, before map[string]picture, except ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(cmp.Diff(before, e.pictures(ctx, g, except...))).To(BeEmpty())
	}, patiently()...).Should(Succeed())
}

// changes returns the requests to change power, disk or media of a machine since a time, with exceptions.
func changes(since time.Time, except ...string) []bmc.Operation {
	return slices.DeleteFunc(bed.lab.BMC().OperationsSince(since), func(operation bmc.Operation) bool {
		return !operation.Changes() || slices.Contains(except, operation.Machine)
	})
}

// ironicWorked returns the logged changes of all running Ironics since a time, with exceptions.
func (e *endpoint) ironicWorked(ctx context.Context, since time.Time, except ...string) []string {
	GinkgoHelper()
	var others []string
	for _, host := range hostsIn(ctx, Default, e.home) {
		if slices.Contains(except, host.Name) {
			Expect(host.Status.Provisioning.ID).NotTo(BeEmpty(), host.Name)
			others = append(others, host.Status.Provisioning.ID)
		}
	}
	var worked []string
	for _, name := range append(e.nodes(ctx), lab.ManagementName) {
		machine := bed.lab.Machine(name)
		if !machine.Running() {
			continue
		}
		found, err := machine.Run(ctx, "find", "/var/log/pods", "-path", ironicLogs,
			"-exec", "grep", "--no-filename", "--extended-regexp", "--regexp="+ironicWork, "{}", ";")
		Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(string(found)) {
			written, message, _ := strings.Cut(line, " ")
			at, err := time.Parse(time.RFC3339Nano, written)
			Expect(err).NotTo(HaveOccurred(), "reading the log of Ironic on %s: %s", name, line)
			isOther := slices.ContainsFunc(others, func(id string) bool { return strings.Contains(message, id) })
			if !at.Before(since) && !isOther {
				worked = append(worked, name+": "+line)
			}
		}
	}
	return worked
}

// expectUntouched requires that no machine has changed since the time untouched, with exceptions: the BMCs got no
// such request, and no Ironic logged one.
func (e *endpoint) expectUntouched(ctx context.Context, except ...string) {
	GinkgoHelper()
	Expect(changes(e.untouched, except...)).To(BeEmpty(), "machines have changed")
	Expect(e.ironicWorked(ctx, e.untouched, except...)).To(BeEmpty(), "an Ironic has changed machines")
}
