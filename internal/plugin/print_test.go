package plugin

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

func TestPreflightPrints(t *testing.T) {
	blocked := ready()
	blocked.hosts[0].Status.Provisioning.State = bmov1alpha1.StateProvisioning
	blocked.hosts = append(blocked.hosts, build.Host("mine", build.Available(), build.Paused("maintenance")),
		build.Host("failed", build.Available(), build.Error("no power")))
	blocked.remediations = []string{"remediation"}
	blocked.infras[0].Status.Ironic.Nodes[0].PodsReady = nil
	blocked.infras[0].Status.Conditions = append(blocked.infras[0].Status.Conditions, rivalry(infrav1.VirtualIPTakenReason,
		"The API server of Metal3Cluster metal3/c answers on 192.0.2.2 too: choose another one in "+
			"spec.ironic.endpoint.virtualIPs"))
	nothing := empty()
	nothing.definitions, nothing.managerObstacles, nothing.operators = nil, managerObstacles(nil), nil
	blind := empty()
	blind.operators = nil
	for name, verdict := range map[string]preflight{
		"ready": judge(ready(), empty(), nil), "blocked": judge(blocked, nothing, nil), "alone": judge(ready(), nil, nil),
		"ignored": judge(ready(), blind, ignorance{string(pivot.CodeOperatorMissing)}),
	} {
		for _, form := range []output{"text", "json"} {
			t.Run(name+"/"+string(form), func(t *testing.T) {
				var printed bytes.Buffer
				if err := verdict.write(&printed, form); err != nil {
					t.Fatal(err)
				}
				golden.Equal(t, "preflight/"+name+"."+string(form), printed.Bytes())
			})
		}
	}
}

// half is a half-finished move of clusterctl: the hosts are parked, and one has arrived.
func half() view {
	parked := ownedHost("host-1", "c", build.Paused(infrav1.HostPausedByProvider))
	parked.Status.LastUpdated = nil
	source := &sight{
		namespace: build.DefaultNamespace,
		hosts: []*bmov1alpha1.BareMetalHost{
			ownedHost("host-0", "c", build.State(bmov1alpha1.StateProvisioning)), parked,
			build.Host("free", build.Available(), build.Paused("maintenance")),
		},
		clusters: []*clusterv1.Cluster{build.Cluster("c", build.ClusterPaused())},
		infras:   []*infrav1.Metal3Cluster{runningInfra("c"), build.Metal3Cluster("without")},
	}
	source.infras[0].Status.Conditions[1] = metav1.Condition{
		Type: infrav1.ReadyForMoveCondition, Status: metav1.ConditionFalse, Reason: infrav1.WaitingForHostsReason,
		Message: "The move waits: host host-0 is provisioning: wait until it is done",
	}
	target := &sight{
		namespace: build.DefaultNamespace,
		hosts:     []*bmov1alpha1.BareMetalHost{ownedHost("host-1", "c", build.Paused(infrav1.HostPausedByProvider))},
		clusters:  []*clusterv1.Cluster{runningCluster("c")}, infras: []*infrav1.Metal3Cluster{runningInfra("c")},
	}
	target.infras[0].Status.Conditions, target.infras[0].Status.Ironic = nil, nil
	other := &sight{
		namespace: "other", clusters: []*clusterv1.Cluster{runningCluster("d")}, infras: []*infrav1.Metal3Cluster{runningInfra("d")},
	}
	for _, cluster := range other.clusters {
		cluster.Namespace = "other"
	}
	other.infras[0].Namespace, other.infras[0].Status.Ironic.KnownHosts = "other", ptr.To(int32(0))
	return view{
		header: headerOf("PivotStatus"), Source: summarize([]*sight{source.neighbours()}),
		Target: summarize([]*sight{other.neighbours(), target.neighbours()}),
	}
}

func TestStatusPrints(t *testing.T) {
	unseen := half()
	unseen.Target = &sideView{Problem: "reading the target cluster: nobody answers"}
	for name, seen := range map[string]view{
		"half": half(), "source": {Source: half().Source}, "unseen": unseen, "blind": {Source: &sideView{Problem: "nobody answers"}}, "empty": {Source: summarize(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			var text, document bytes.Buffer
			if err := errors.Join(seen.write(&text, name == "half", false), printJSON(&document, seen, false)); err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "status/"+name+".text", text.Bytes())
			golden.Equal(t, "status/"+name+".json", document.Bytes())
		})
	}
}

// hostile is a text of a tenant that clears a terminal and forges a line. HostileText is its printed form.
const (
	hostile     = "\x1b[2J\nforged"
	hostileText = `\x1b[2J\nforged`
)

// TestStatusIsPrintable has a tenant that sets the value of an annotation.
func TestStatusIsPrintable(t *testing.T) {
	seen := view{Source: summarize([]*sight{{
		namespace: build.DefaultNamespace,
		hosts:     []*bmov1alpha1.BareMetalHost{build.Host("host-0", build.Available(), build.Paused(hostile))},
	}}), Target: &sideView{Problem: hostile}}
	var text, document bytes.Buffer
	if err := errors.Join(seen.write(&text, true, false), printJSON(&document, seen, true)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"paused " + hostileText + "\n", "\n\ntarget not seen: " + hostileText + "\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text does not have %q:\n%q", want, text.String())
		}
	}
	if want := `paused \u001b[2J\nforged"`; !strings.Contains(document.String(), want) {
		t.Errorf("the document does not have %s:\n%s", want, document.String())
	}
}

func TestSaysPrintable(t *testing.T) {
	type word string
	var printed bytes.Buffer
	tell := func(format string, values ...any) {
		t.Helper()
		if err := say(&printed, format, values...); err != nil {
			t.Fatal(err)
		}
	}
	tell("\n%s and\n%s", "string "+hostile, word("word "+hostile))
	tell("%v", errors.New("error "+hostile))
	tell("- %s", pivot.Obstacle{Message: "obstacle " + hostile})
	tell("%q, %d hosts, %.1fs", "quoted\t", 2, 1.25)
	tell("%s", "tab \t, bidi \u202e, C1 \u009b, no UTF-8 \x9b, a replacement \ufffd, Jürgen's \"日本\" C:\\dir")
	want := `
string \x1b[2J\nforged and
word \x1b[2J\nforged
error \x1b[2J\nforged
- obstacle \x1b[2J\nforged
"quoted\t", 2 hosts, 1.2s
tab \t, bidi \u202e, C1 \u009b, no UTF-8 \x9b, a replacement �, Jürgen's "日本" C:\dir
`
	if diff := cmp.Diff(want, printed.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestPrintableLines(t *testing.T) {
	joined := errors.Join(errors.New("first \r"), errors.New("second \x1b"))
	if diff := cmp.Diff("first \\r\nsecond \\x1b", printableLines(joined.Error())); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestWithheldHosts separates the hosts that Ironic must have registered from those that BMO does not register.
func TestWithheldHosts(t *testing.T) {
	seen := &sight{
		namespace: build.DefaultNamespace,
		hosts: []*bmov1alpha1.BareMetalHost{
			ownedHost("runs", "c"), ownedHost("resumes", "c", build.Paused(infrav1.HostPausedByProvider)),
			ownedHost("paused", "c", build.Paused("maintenance")),
			ownedHost("detached", "c", build.Annotations(map[string]string{bmov1alpha1.DetachedAnnotation: ""})),
			ownedHost("other", "d", build.Paused("maintenance")),
		},
		clusters: []*clusterv1.Cluster{runningCluster("c"), runningCluster("e")},
		infras:   []*infrav1.Metal3Cluster{runningInfra("c"), build.Metal3Cluster("e")},
	}
	seen.infras[0].Status.Ironic.KnownHosts = ptr.To(int32(2))
	var text, document bytes.Buffer
	shown := view{Source: summarize([]*sight{seen.neighbours()})}
	if err := errors.Join(shown.write(&text, false, true), printJSON(&document, shown, false)); err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "status/withheld.text", text.Bytes())
	golden.Equal(t, "status/withheld.json", document.Bytes())
}

// TestLinesThatChanged follows a move to its end.
func TestLinesThatChanged(t *testing.T) {
	var printed bytes.Buffer
	report := reportLines(&printed)
	tell := func(seen view) {
		t.Helper()
		printed.WriteString("--\n")
		if err := report(seen); err != nil {
			t.Fatal(err)
		}
	}
	seen := half()
	tell(seen)
	tell(half())
	seen.Source.Clusters[0].Message = ""
	tell(seen)
	cut := view{Source: half().Source, Target: &sideView{Problem: "nobody answers"}}
	cut.Source.Clusters[0].Paused = false
	tell(cut)
	tell(seen)
	seen = half()
	seen.Source = summarize(nil)
	tell(seen)
	seen.Target = summarize(nil)
	tell(seen)
	golden.Equal(t, "status/changes.text", printed.Bytes())
}

func TestDocumentsThatChanged(t *testing.T) {
	var printed bytes.Buffer
	report := reportDocuments(&printed, formJSON)
	for _, seen := range []view{half(), half(), {Source: half().Source}, half()} {
		if err := report(seen); err != nil {
			t.Fatal(err)
		}
	}
	if lines := strings.Count(printed.String(), "\n"); lines != 3 {
		t.Errorf("got %d documents, want 3:\n%s", lines, printed.String())
	}
}

func TestDemotionPrints(t *testing.T) {
	result := func(edit func(*handoverResult)) handoverResult {
		done := handoverResult{Deployment: "metal3-ironic-system/metal3-ironic", Refusals: []pivot.Obstacle{}, Before: 1}
		edit(&done)
		return done
	}
	busy := []pivot.Obstacle{{
		Code: pivot.CodeHostBusy, Kind: "BareMetalHost", Namespace: "n", Name: "h", Message: "host n/h is provisioning",
		Remedy: "wait",
	}}
	arrived := &arrivalReport{
		Done: true, Holder: "ControlPlane node-1", HolderSeconds: ptr.To(1.25), KnownHosts: 5, Hosts: 5, KnownSeconds: ptr.To(8.5),
	}
	without := []string{"BMO does not register host h, which is detached: remove its annotation x"}
	stuck := &arrivalReport{
		Holder: "ControlPlane node-1", HolderSeconds: ptr.To(1.25), KnownHosts: 4, Hosts: 5, Problem: "its Ironic has registered 4 of 5 hosts",
	}
	cases := map[string]struct {
		done      handoverResult
		undo      bool
		refused   bool
		forceable bool
	}{
		"done":    {done: result(func(d *handoverResult) { d.Handover = arrived })},
		"stuck":   {done: result(func(d *handoverResult) { d.Handover = stuck })},
		"without": {done: result(func(d *handoverResult) { d.Handover, d.Notes = arrived, without })},
		"dryrun":  {done: result(func(d *handoverResult) { d.DryRun = true })},
		"forced": {done: result(func(d *handoverResult) {
			d.Forced, d.Refusals, d.Handover = true, busy, arrived
		})},
		"refused": {done: result(func(d *handoverResult) {
			d.After, d.Refusals = 1, append(busy, pivot.Obstacle{Code: pivot.CodeNodeNotArmed, Kind: "Node", Name: "x",
				Message: "node x is not armed"})
		}), refused: true, forceable: true},
		"hopeless": {done: result(func(d *handoverResult) {
			d.After, d.Refusals = 1, []pivot.Obstacle{{Code: pivot.CodeNoEndpoint, Message: "no Metal3Cluster"}}
		}), refused: true},
		"undone": {done: result(func(d *handoverResult) {
			d.Before, d.After, d.Notes = 0, 1, []string{"it takes the address back"}
		}), undo: true},
		"undo-dryrun": {done: result(func(d *handoverResult) { d.Before, d.After, d.DryRun = 0, 1, true }), undo: true},
	}
	for name, test := range cases {
		for _, form := range []output{"text", "json"} {
			t.Run(name+"/"+string(form), func(t *testing.T) {
				var printed bytes.Buffer
				c := &handoverCommand{form: form, undo: test.undo, result: &printed}
				tell := func() error { return c.finish(test.done) }
				if test.refused {
					tell = func() error { return c.refuse(test.done, test.forceable) }
				}
				if err := tell(); err != nil {
					t.Fatal(err)
				}
				if form == "text" && test.done.Handover != nil && test.done.Handover.Done && test.done.Notes == nil {
					// All of this was printed when it happened.
					if printed.Len() > 0 {
						t.Errorf("told twice:\n%s", printed.String())
					}
					return
				}
				golden.Equal(t, "demote/"+name+"."+string(form), printed.Bytes())
			})
		}
	}
}

// full is a writer that returns an error, such as a pipe without a reader.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestNobodyReads(t *testing.T) {
	done := handoverResult{Refusals: gone(), Forced: true, Notes: []string{"note"}, Handover: &arrivalReport{}}
	for name, tell := range map[string]func() error{
		"preflight":      func() error { return judge(ready(), nil, nil).write(full{}, "text") },
		"preflight JSON": func() error { return judge(ready(), nil, nil).write(full{}, "json") },
		"status":         func() error { return half().write(full{}, false, false) },
		"changes":        func() error { return reportLines(full{})(half()) },
		"documents":      func() error { return reportDocuments(full{}, formYAML)(half()) },
		"refusal":        func() error { return (&handoverCommand{form: "text", result: full{}}).refuse(done, true) },
		"demotion":       func() error { return (&handoverCommand{form: "text", result: full{}}).finish(done) },
	} {
		if err := tell(); err == nil || !strings.Contains(err.Error(), "broken pipe") {
			t.Errorf("%s: got %v, want broken pipe", name, err)
		}
	}
}

func TestJudgeOfPatience(t *testing.T) {
	var told []string
	p := newPatience(&handoverCommand{}, runningKey())
	p.tell = func(format string, _ ...any) error { told = append(told, format); return nil }
	infra := runningInfra("c")
	step := func(hosts int, wantDone bool, wantProblem string) {
		t.Helper()
		done, err := p.judge(infra, hosts)
		if err != nil || done != wantDone {
			t.Errorf("got %v, %v, want %v", done, err, wantDone)
		}
		if diff := cmp.Diff(wantProblem, p.report.Problem); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	}
	step(2, false, "no node of the control plane holds the endpoint")
	infra.Status.Conditions[0].Status, infra.Status.Conditions[0].Message = metav1.ConditionFalse, "nobody answers"
	infra.Status.Ironic.Holder = &infrav1.IronicHolder{Kind: infrav1.HolderNone}
	step(2, false, "no node of the control plane holds the endpoint: nobody answers")
	infra.Status.Conditions[0].Status = metav1.ConditionTrue
	infra.Status.Ironic.Holder = &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "node-0"}
	infra.Status.Ironic.KnownHosts = nil
	step(0, false, "its Ironic has registered 0 of 0 hosts: see their conditions and events")
	infra.Status.Ironic.KnownHosts = ptr.To(int32(1))
	step(2, false, "its Ironic has registered 1 of 2 hosts: see their conditions and events")
	step(1, true, "")
	if len(told) != 2 {
		t.Errorf("told %q, want the holder once and the end once", told)
	}
}
