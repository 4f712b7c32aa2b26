package main

import (
	"slices"
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// expect requires one problem with these words, or none for empty words.
func expect(t *testing.T, reason string, problems []string, words string) {
	t.Helper()
	if words == "" && len(problems) > 0 {
		t.Errorf("%s\ngot problems %q, want none", reason, problems)
	}
	if words != "" && (len(problems) != 1 || !strings.Contains(problems[0], words)) {
		t.Errorf("%s\ngot problems %q, want one with %q", reason, problems, words)
	}
}

func TestClaimProblems(t *testing.T) {
	machine := build.Metal3Machine("machine", clusterName, build.OnHost(build.Host("a")))
	held := *claimed(*build.Host("a"), machine)
	unfinished := *build.Host("a", build.Consumed(machine))
	other := *build.Host("b")
	other.Spec.ConsumerRef = &corev1.ObjectReference{Kind: competitorKind, Name: "competitor-1"}
	cases := map[string]struct {
		reason string
		hosts  []bmov1alpha1.BareMetalHost
		others map[string]string
		want   string
	}{
		"Complete": {
			reason: "The machine has its host and the competitor its own.",
			hosts:  []bmov1alpha1.BareMetalHost{held, other}, others: map[string]string{"b": "competitor-1"},
		},
		"NoHost": {
			reason: "The machine reports a host that it does not hold.",
			hosts:  []bmov1alpha1.BareMetalHost{other}, want: "holds []",
		},
		"TwoHosts": {
			reason: "One machine holds two hosts.",
			hosts:  []bmov1alpha1.BareMetalHost{held, *claimed(*build.Host("c"), machine)}, want: "holds [a c]",
		},
		"OtherHost": {
			reason: "The machine holds another host than it recorded.",
			hosts:  []bmov1alpha1.BareMetalHost{*claimed(*build.Host("c"), machine)}, want: "holds [c]",
		},
		"Unfinished": {
			reason: "A claim requires an image.",
			hosts:  []bmov1alpha1.BareMetalHost{unfinished}, want: "without image",
		},
		"Stolen": {
			reason: "A competitor wrote its claim, and the machine wrote over it.",
			hosts:  []bmov1alpha1.BareMetalHost{held}, others: map[string]string{"a": "competitor-1"}, want: "double claim",
		},
		"StolenByCompetitor": {
			reason: "A competitor wrote over the claim of another.",
			hosts:  []bmov1alpha1.BareMetalHost{held, other}, others: map[string]string{"b": "competitor-2"},
			want: "double claim",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.reason, claimProblems(tc.hosts, []infrav1.Metal3Machine{*machine}, tc.others), tc.want)
		})
	}
}

func TestWriteProblems(t *testing.T) {
	claim := env.Request{User: managerUser, Verb: "patch", Resource: "baremetalhosts", Name: "a", Code: 200}
	refused := claim
	refused.Code = 409
	trial := claim
	trial.DryRun = true
	status := env.Request{User: managerUser, Verb: "patch", Resource: "metal3machines", Subresource: "status", Code: 200}
	event := env.Request{User: managerUser, Verb: "create", Resource: "events", Code: 201}
	read := env.Request{User: managerUser, Verb: "get", Resource: "secrets", Code: 200}
	foreign := env.Request{User: "admin", Verb: "patch", Resource: "baremetalhosts", Name: "a", Code: 200}
	cases := map[string]struct {
		reason    string
		requests  []env.Request
		contested bool
		want      string
	}{
		"Enough": {
			reason:   "Four writes for one machine. Reads do not count.",
			requests: []env.Request{claim, status, status, event, read, read},
		},
		"TooMany": {
			reason:   "An event counts as a write.",
			requests: []env.Request{claim, status, status, event, event}, want: "5 writes",
		},
		"Conflict": {
			reason:   "Without competitors, a conflict is an error.",
			requests: []env.Request{refused, claim, status, status, event}, want: "5 writes",
		},
		"LostToCompetitor": {
			reason:   "Another host had to be chosen and recorded.",
			requests: []env.Request{refused, status, claim, status, status, event}, contested: true,
		},
		"DryRun": {
			reason:   "A dry run writes nothing.",
			requests: []env.Request{claim, trial, status, status, event},
		},
		"Twice": {
			reason:   "Two claims of one host succeeded.",
			requests: []env.Request{claim, claim}, want: "host a was written 2 times",
		},
		"TwiceByOthers": {
			reason:   "The writer does not matter.",
			requests: []env.Request{claim, foreign}, contested: true, want: "host a was written 2 times",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.reason, writeProblems(tc.requests, 1, writesPerMachine, tc.contested), tc.want)
		})
	}
}

func TestTrialProblems(t *testing.T) {
	trials := slices.Repeat([]env.Request{{User: managerUser, Verb: "patch", Resource: "baremetalhosts", DryRun: true}}, 2)
	expect(t, "One dry run every five minutes.", trialProblems(trials, trialInterval), "")
	expect(t, "Two dry runs in less time.", trialProblems(trials, trialInterval-1), "2 dry runs")
}

func TestIdleProblems(t *testing.T) {
	of := func(user, verb string, count int) []env.Request {
		return slices.Repeat([]env.Request{{User: user, Verb: verb, Resource: "metal3machines"}}, count)
	}
	for name, tc := range map[string]struct {
		requests []env.Request
		problems int
	}{
		"Nothing": {nil, 0},
		"Reads":   {of(managerUser, "watch", idleReads), 0},
		"Others":  {of("another", "patch", 100), 0},
		"Write":   {of(managerUser, "patch", 1), 1},
		"TooMany": {of(managerUser, "list", idleReads+1), 1},
		"Both":    {of(managerUser, "update", idleReads+1), 2},
	} {
		if got := idleProblems(tc.requests); len(got) != tc.problems {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestMemoryProblems(t *testing.T) {
	expect(t, "The goal is reached.", memoryProblems(goalMemory, goalSize), "")
	expect(t, "The goal is missed.", memoryProblems(goalMemory+1<<20, goalSize), "took 151 MiB of memory")
	expect(t, "More machines need more.", memoryProblems(goalMemory+1<<20, goalSize+1), "")
	expect(t, "The larger goal is missed.", memoryProblems(goalMemoryLarge+1<<20, goalSize+1), "took 301 MiB of memory")
}

func TestLeftOn(t *testing.T) {
	before := *build.Host("a", build.Available(), build.Labels(map[string]string{"rack": "1"}))
	cases := map[string]struct {
		reason string
		change func(*bmov1alpha1.BareMetalHost)
		want   string
	}{
		"Nothing": {
			reason: "What the API server and BMO write does not count.",
			change: func(host *bmov1alpha1.BareMetalHost) {
				host.ResourceVersion, host.Generation = "2", 2
				host.Status.PoweredOn = true
			},
		},
		"Spec":       {change: func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = true }, want: "Online"},
		"Label":      {change: func(host *bmov1alpha1.BareMetalHost) { host.Labels["x"] = "y" }, want: "Labels"},
		"LostLabel":  {change: func(host *bmov1alpha1.BareMetalHost) { delete(host.Labels, "rack") }, want: "Labels"},
		"Annotation": {change: func(host *bmov1alpha1.BareMetalHost) { host.Annotations = map[string]string{"x": "y"} }, want: "Annotations"},
		"Owner":      {change: func(host *bmov1alpha1.BareMetalHost) { build.OwnedBy(build.Namespace("x"))(host) }, want: "Owners"},
		"Finalizer":  {change: func(host *bmov1alpha1.BareMetalHost) { build.Finalizers("x/y")(host) }, want: "Finalizers"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := before.DeepCopy()
			tc.change(now)
			got := leftOn(before, *now)
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s\nleftOn() = %q, want it to name %q", tc.reason, got, tc.want)
			}
		})
	}
}
