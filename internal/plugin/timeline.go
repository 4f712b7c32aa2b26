package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/timeline"
)

const (
	// formHTML is a value of --output of timeline alone.
	formHTML = "html"

	// holderChanged is the reason of the event of a handover.
	holderChanged = "IronicHolderChanged"

	// defaultSince is the time for which an API server keeps events by default.
	defaultSince = time.Hour
)

// history has the events of a move on both sides.
type history struct {
	header `json:",inline"`

	Namespace string     `json:"namespace"`
	Events    []happened `json:"events"`

	// Missing are the sides that did not answer, such as a source that is switched off.
	Missing []missing `json:"missing,omitempty"`
}

// missing is a side that did not answer.
type missing struct {
	Cluster string `json:"cluster"`
	Problem string `json:"problem"`
}

// happened is one event.
type happened struct {
	At      metav1.Time `json:"at"`
	Cluster string      `json:"cluster"`
	Kind    string      `json:"kind"`
	Name    string      `json:"name"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
}

func setupTimeline(set *pflag.FlagSet) runner {
	var where sides
	var form output
	var since time.Duration
	where.add(set)
	set.DurationVar(&since, "since", defaultSince, "how far to look back")
	set.StringVarP((*string)(&form), "output", "o", formText, "text, html, json or yaml")
	return func(ctx context.Context, environment Environment) (int, error) {
		if form != formHTML && form.check() != nil {
			return exitBlind, fmt.Errorf("--output is %q; use text, html, json or yaml", string(form))
		}
		if since <= 0 {
			return exitBlind, fmt.Errorf("--since is %s; use a time above zero, such as 1h", since)
		}
		source, target, err := where.open()
		if err != nil {
			return exitBlind, err
		}
		seen, err := readHistory(ctx, []*cluster{source, target}, where.namespace, since)
		if err != nil {
			return exitBlind, err
		}
		return exitDone, errors.Join(seen.warn(environment.Errors), seen.write(environment, form))
	}
}

// readHistory reads the events of the named sides. It returns an error if no side answers, or if there is no event.
func readHistory(ctx context.Context, sides []*cluster, namespace string, since time.Duration) (history, error) {
	seen := history{header: headerOf("PivotTimeline"), Namespace: namespace, Events: []happened{}}
	var answered bool
	var failed error
	for _, side := range sides {
		if side == nil {
			continue
		}
		found, err := side.readEvents(ctx, namespace, time.Now().Add(-since))
		if err != nil {
			failed = errors.Join(failed, side.blind(err))
			seen.Missing = append(seen.Missing, missing{side.side, side.blind(err).Error()})
			continue
		}
		answered = true
		seen.Events = append(seen.Events, found...)
	}
	slices.SortStableFunc(seen.Events, func(a, b happened) int { return a.At.Compare(b.At.Time) })
	switch {
	case !answered:
		return seen, failed
	case len(seen.Events) == 0:
		return seen, errors.Join(failed, fmt.Errorf("no event of the last %s belongs to a move in namespace %s: API servers "+
			"delete old events, and a deleted namespace has none", since, namespace))
	default:
		return seen, nil
	}
}

// readEvents reads the events of the manager about hosts and Metal3Clusters.
func (c *cluster) readEvents(ctx context.Context, namespace string, since time.Time) ([]happened, error) {
	var list eventsv1.EventList
	if err := c.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Events: %w", err)
	}
	var found []happened
	phases := phaseAfter()
	for i := range list.Items {
		event := &list.Items[i]
		kind := event.Regarding.Kind
		_, ofMove := phases[event.Reason]
		at := timeOf(event)
		if kind != "Metal3Cluster" && (kind != "BareMetalHost" || !ofMove) || at.Before(since) {
			continue
		}
		found = append(found, happened{
			At: metav1.NewTime(at), Cluster: c.side, Kind: kind, Name: event.Regarding.Name, Reason: event.Reason,
			Message: event.Note,
		})
	}
	return found, nil
}

// timeOf returns the last time of an event.
func timeOf(event *eventsv1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	default:
		return event.DeprecatedLastTimestamp.Time
	}
}

// phaseAfter returns the phase of a host after an event, by the reason of the event.
func phaseAfter() map[string]pivot.Phase {
	return map[string]pivot.Phase{
		"PausedForMove":           pivot.PhaseParking,
		"ReadyForMove":            pivot.PhaseParked,
		"ResumedAfterMove":        pivot.PhaseRunning,
		"StatusRestored":          pivot.PhaseWaitingForEndpoint,
		"ProvisioningInterrupted": pivot.PhaseRunning,
		"Fenced":                  pivot.PhaseFenced,
		"ArrivalHeld":             pivot.PhaseArrivalHeld,
		"StatusLost":              pivot.PhaseStatusLost,
		"ProvisioningHeld":        pivot.PhaseProvisioningHeld,
		"WaitingForIronic":        pivot.PhaseWaitingForEndpoint,
		"MovedAway":               pivot.PhaseResuming,
		"NotMoved":                pivot.PhaseRunning,
	}
}

// warn prints which side did not answer.
func (h history) warn(writer io.Writer) error {
	var problem error
	for _, side := range h.Missing {
		problem = errors.Join(problem, say(writer, "The events of the %s are missing: %s", side.Cluster, side.Problem))
	}
	return problem
}

func (h history) write(environment Environment, form output) error {
	switch {
	case form.machine():
		return form.write(environment.Output, h, false)
	case form == formHTML:
		content, err := h.page().Render()
		if err != nil {
			return err
		}
		if _, err := environment.Output.Write([]byte(content)); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
		return nil
	}
	rows := [][]string{{"TIME", "CLUSTER", "OBJECT", "REASON", "MESSAGE"}}
	for _, each := range h.Events {
		rows = append(rows, []string{
			each.At.UTC().Format("15:04:05.0"), each.Cluster, each.Kind + " " + each.Name, each.Reason, each.Message,
		})
	}
	return printTable(environment.Output, rows)
}

// page draws a lane for all hosts, one for each host, and a mark for each event of a Metal3Cluster.
func (h history) page() timeline.Page {
	began, ended := h.Events[0].At.Time, h.Events[len(h.Events)-1].At.Time
	phases, tracks, marks := map[string]string{}, map[string]*timeline.Track{}, []timeline.Mark(nil)
	all, next := timeline.Track{Name: "hosts"}, phaseAfter()
	for _, each := range h.Events {
		if each.Kind == "BareMetalHost" && tracks[each.Name] == nil {
			phases[each.Name] = string(pivot.PhaseRunning)
			tracks[each.Name] = &timeline.Track{Name: each.Name, Detail: true}
			tracks[each.Name].Add(began, phases[each.Name])
		}
	}
	for _, each := range h.Events {
		if each.Kind != "BareMetalHost" {
			mark := timeline.Mark{At: each.At.Time, What: fmt.Sprintf("%s %s in the %s: %s: %s",
				each.Kind, each.Name, each.Cluster, each.Reason, each.Message)}
			if each.Reason == holderChanged {
				mark.Zoom = "VIP holder changes"
			}
			marks = append(marks, mark)
			continue
		}
		phases[each.Name] = string(next[each.Reason])
		tracks[each.Name].Add(each.At.Time, phases[each.Name])
		all.Add(each.At.Time, prevailing(phases))
	}
	drawn := []timeline.Track{all}
	if len(all.Spans) > 0 {
		drawn[0].Spans[len(all.Spans)-1].To = ended
	}
	for _, name := range sortedKeys(tracks) {
		tracks[name].Add(ended, phases[name])
		drawn = append(drawn, *tracks[name])
	}
	page := timeline.New(fmt.Sprintf("Pivot of namespace %s, %s", h.Namespace, began.UTC().Format(time.DateTime)),
		began, drawn, marks)
	for _, side := range h.Missing {
		page.Notes = append(page.Notes, fmt.Sprintf("The events of the %s are missing: %s", side.Cluster, side.Problem))
	}
	return page
}

// prevailing returns the phase of most hosts. Of several, it returns the first in the order of phases.
func prevailing(phases map[string]string) string {
	counts := map[string]int{}
	for _, phase := range phases {
		counts[phase]++
	}
	most := slices.MaxFunc(pivot.Phases(), func(a, b pivot.Phase) int {
		return cmp.Compare(counts[string(a)], counts[string(b)])
	})
	return string(most)
}
