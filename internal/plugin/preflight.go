package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// preflight is the result of the command preflight.
type preflight struct {
	header `json:",inline"`

	Namespace string `json:"namespace"`

	// Ready is true if clusterctl move would succeed now and lose nothing.
	Ready bool `json:"ready"`

	// Obstacles prevent the move.
	Obstacles []obstacle `json:"obstacles"`

	// Ignored are obstacles that the user ignores with --ignore.
	Ignored []obstacle `json:"ignored,omitempty"`

	// Notes do not block the move.
	Notes []string `json:"notes"`

	// Counted counts the objects of the source. It distinguishes an empty namespace from a ready one.
	Counted counts `json:"counted"`

	// moving names the Clusters and hosts of the source. Machines may change while a command waits for them.
	moving []string
}

// obstacle is an obstacle with its cluster.
type obstacle struct {
	// Cluster is source or target. Empty for both.
	Cluster string `json:"cluster,omitempty"`

	pivot.Obstacle `json:",inline"`
}

// String includes the cluster.
func (o obstacle) String() string {
	if o.Cluster == "" {
		return o.Obstacle.String()
	}
	return o.Cluster + ": " + o.Obstacle.String()
}

// at adds the cluster to obstacles.
func at(side string, found []pivot.Obstacle) []obstacle {
	located := make([]obstacle, 0, len(found))
	for _, each := range found {
		located = append(located, obstacle{Cluster: side, Obstacle: each})
	}
	return located
}

// counts are numbers of objects.
type counts struct {
	Clusters int `json:"clusters"`
	Machines int `json:"machines"`
	Hosts    int `json:"hosts"`
}

func (c counts) String() string {
	return fmt.Sprintf("%s, %s, %s", number(c.Clusters, "Cluster"), number(c.Machines, "Machine"), number(c.Hosts, "host"))
}

// waitEvery is the interval of preflight --wait and run.
const waitEvery = 5 * time.Second

func setupPreflight(set *pflag.FlagSet) runner {
	var where sides
	var form output
	var wait bool
	var timeout time.Duration
	var ignored ignorance
	where.add(set)
	set.BoolVar(&wait, "wait", false, "wait until the move is ready")
	set.DurationVar(&timeout, "timeout", defaultTimeout, "how long --wait waits")
	ignored.add(set)
	form.add(set)
	return func(ctx context.Context, environment Environment) (int, error) {
		if err := form.check(); err != nil {
			return exitBlind, err
		}
		if timeout <= 0 {
			return exitBlind, fmt.Errorf("--timeout is %s; use a time above zero, such as 10m", timeout)
		}
		if err := ignored.check(); err != nil {
			return exitBlind, err
		}
		source, target, err := where.open()
		if err != nil {
			return exitBlind, err
		}
		planned := plannedMove{source, target, where.namespace, ignored, func(err error) {
			// A failed write does not end the wait.
			_ = say(environment.Errors, "Waiting: %v", err)
		}}
		look := planned.inspect
		if wait {
			look = func(ctx context.Context) (preflight, error) { return planned.await(ctx, timeout, isReady) }
		}
		verdict, err := look(ctx)
		if err != nil {
			return exitBlind, err
		}
		if err := verdict.write(environment.Output, form); err != nil {
			return exitBlind, err
		}
		if !verdict.Ready {
			return exitNotReady, nil
		}
		return exitDone, nil
	}
}

// plannedMove is the move that preflight judges. Target may be nil.
type plannedMove struct {
	source, target *cluster
	namespace      string
	ignored        ignorance

	// missed is called with the error of a failed read while a command waits, when the error changes.
	missed func(error)
}

// inspect reads both sides, and judges them.
func (m plannedMove) inspect(ctx context.Context) (preflight, error) {
	left, err := m.source.survey(ctx, m.namespace)
	if err != nil {
		return preflight{}, err
	}
	var entered *scope
	if m.target != nil {
		if entered, err = m.target.survey(ctx, m.namespace); err == nil {
			err = m.source.compareFields(ctx, left, entered)
		}
		if err != nil {
			return preflight{}, err
		}
	}
	return judge(left, entered, m.ignored), nil
}

// await inspects until a verdict is final, or until the timeout. It returns the last verdict. The timeout does not
// bound the first inspection. After the first inspection, await repeats a failed read. It returns the error if the read
// still fails at the timeout, and at once if a repeated read cannot succeed.
func (m plannedMove) await(ctx context.Context, limit time.Duration, final func(preflight) bool) (preflight, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last, err := m.inspect(ctx)
	if err != nil {
		return last, err
	}
	var unread error
	for unread != nil || !final(last) {
		select {
		case <-limited.Done():
			return last, unread
		case <-time.After(waitEvery):
		}
		verdict, err := m.inspect(limited)
		switch {
		case err == nil:
			last, unread = verdict, nil
		case isPermanent(err):
			return last, err
		case limited.Err() == nil:
			if unread == nil || unread.Error() != err.Error() {
				m.missed(err)
			}
			unread = err
		}
	}
	return last, nil
}

// isReady is the final verdict of a command that waits until no obstacle exists.
func isReady(verdict preflight) bool { return verdict.Ready }

// passes returns true if obstacles exist, and all of them end without an administrator.
func (p preflight) passes() bool {
	return !p.Ready && !slices.ContainsFunc(p.Obstacles, func(each obstacle) bool { return !each.Code.Passes() })
}

// judge returns whether the observed objects can be moved. Without a target, it judges only the source.
func judge(source, target *scope, ignored ignorance) preflight {
	verdict := preflight{
		header: headerOf("PivotPreflight"), Namespace: source.namespace, Notes: []string{},
		Counted: counts{Clusters: len(source.clusters), Machines: len(source.machines), Hosts: len(source.hosts)},
	}
	for _, cluster := range source.clusters {
		verdict.moving = append(verdict.moving, "Cluster "+cluster.Name)
	}
	for _, host := range source.hosts {
		verdict.moving = append(verdict.moving, "BareMetalHost "+host.Name)
	}
	verdict.Obstacles = at(sourceSide, departure{source}.obstacles())
	verdict.Notes = append(verdict.Notes, departure{source}.notes()...)
	if target == nil {
		verdict.Notes = append(verdict.Notes, "the target was not checked: name it with --to-kubeconfig")
	} else {
		arriving := arrivalOf(source, target)
		verdict.Obstacles = append(verdict.Obstacles, at(targetSide, arriving.obstacles())...)
		verdict.Obstacles = append(verdict.Obstacles, arriving.ironicObstacles()...)
		verdict.Notes = append(verdict.Notes, arriving.notes()...)
	}
	verdict.Obstacles, verdict.Ignored = ignored.split(verdict.Obstacles)
	verdict.Ready = len(verdict.Obstacles) == 0
	return verdict
}

// ignorance has the codes of obstacles that the user ignores.
type ignorance []string

// ignorable returns the codes that a user may ignore, because the plugin may not be able to check them.
func ignorable() []string {
	return []string{
		string(pivot.CodeIronicDiffers), string(pivot.CodeIronicUnknown), string(pivot.CodeOperatorMissing),
	}
}

func (i *ignorance) add(set *pflag.FlagSet) {
	set.StringSliceVar((*[]string)(i), "ignore", nil,
		"codes of obstacles to ignore: "+strings.Join(ignorable(), ", "))
}

func (i ignorance) check() error {
	for _, code := range i {
		if !slices.Contains(ignorable(), code) {
			return fmt.Errorf("--ignore is %q; use %s", code, strings.Join(ignorable(), ", "))
		}
	}
	return nil
}

// split separates the obstacles that the user ignores.
func (i ignorance) split(found []obstacle) (counted, ignored []obstacle) {
	counted = []obstacle{}
	for _, each := range found {
		if slices.Contains(i, string(each.Code)) {
			ignored = append(ignored, each)
		} else {
			counted = append(counted, each)
		}
	}
	return counted, ignored
}
