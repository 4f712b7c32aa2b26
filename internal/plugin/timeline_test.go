package plugin

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/timeline"
)

// moved has the events of a move of two hosts.
func moved() history {
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	told := history{header: headerOf("PivotTimeline"), Namespace: "metal3"}
	for _, each := range []struct {
		second             int
		side, kind, name   string
		reason, whatItSaid string
	}{
		{0, sourceSide, "BareMetalHost", "host-0", "PausedForMove", "Paused"},
		{1, sourceSide, "BareMetalHost", "host-1", "PausedForMove", "Paused"},
		{3, sourceSide, "BareMetalHost", "host-0", "ReadyForMove", "Recorded"},
		{4, sourceSide, "BareMetalHost", "host-1", "ReadyForMove", "Recorded"},
		{20, targetSide, "BareMetalHost", "host-0", "ResumedAfterMove", "Resumed"},
		{21, targetSide, "BareMetalHost", "host-1", "ResumedAfterMove", "Resumed"},
		{30, targetSide, "Metal3Cluster", "cluster", "NodeArmed", "Node node-0 is armed"},
		{130, targetSide, "Metal3Cluster", "cluster", "IronicHolderChanged", "The holder of the Ironic endpoint changed"},
	} {
		at := began.Add(time.Duration(each.second) * time.Second)
		told.Events = append(told.Events, happened{
			At: metav1.NewTime(at), Cluster: each.side, Kind: each.kind, Name: each.name, Reason: each.reason,
			Message: each.whatItSaid,
		})
	}
	return told
}

func TestTimelineOfEvents(t *testing.T) {
	page := moved().page()
	var hosts []string
	for _, bar := range page.Lanes[0].Bars {
		hosts = append(hosts, bar.Text)
	}
	if diff := cmp.Diff([]string{"Running", "Parking", "Parked", "Running"}, hosts); diff != "" {
		t.Errorf("the lane of all hosts: -want +got:\n%s", diff)
	}
	want := timeline.Lane{Name: "host-0", Bars: []timeline.Bar{
		{Left: 0, Width: 300. / 130, Text: "Parking"}, {Left: 300. / 130, Width: 1700. / 130, Text: "Parked"},
		{Left: 2000. / 130, Width: 11000. / 130, Text: "Running"},
	}}
	got := page.Details[0]
	got.Bars = got.Bars[len(got.Bars)-3:]
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 0.001), cmpopts.IgnoreFields(timeline.Bar{}, "Hint", "Colour")); diff != "" {
		t.Errorf("the lane of a host: -want +got:\n%s", diff)
	}
	if len(page.Zooms) != 1 || page.Zooms[0].Name != "VIP holder changes at 130.0 s" {
		t.Errorf("the handover has no zoom: %v", page.Zooms)
	}
	if len(page.Details) != 2 || len(page.Marks) != 2 || !strings.Contains(page.Marks[0].Text, "Node node-0 is armed") {
		t.Errorf("%d hosts, marks %v", len(page.Details), page.Marks)
	}
}

func TestTimelinePrints(t *testing.T) {
	for _, form := range []output{formText, formJSON} {
		var printed bytes.Buffer
		if err := moved().write(Environment{Output: &printed}, form); err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, "timeline/moved."+string(form), printed.Bytes())
	}
	var page bytes.Buffer
	if err := moved().write(Environment{Output: &page}, formHTML); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "<h1>Pivot of namespace metal3, 2026-01-02 03:00:00</h1>") {
		t.Errorf("got %s", page.String())
	}
}

// TestPhaseAfter requires a phase for each event of a host in a move.
func TestPhaseAfter(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "controllers", "hostmove", "controller.go"))
	if err != nil {
		t.Fatal(err)
	}
	phases := phaseAfter()
	reasons := regexp.MustCompile(`(?m)corev1\.EventType\w+, "(\w+)",$`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < len(phases) {
		t.Errorf("the manager has %d events, and the timeline %d", len(reasons), len(phases))
	}
	for _, reason := range reasons {
		if phases[reason[1]] == "" {
			t.Errorf("event %s has no phase", reason[1])
		}
	}
}
