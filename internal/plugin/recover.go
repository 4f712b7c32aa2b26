package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// lookEvery is the interval in which a command reads whether the hosts run.
const lookEvery = time.Second

// recovery is a command that changes one side or both.
type recovery struct {
	where   sides
	form    output
	yes     bool
	dryRun  bool
	timeout time.Duration

	// ignored is for commands that move, noWait for run, ofTarget and force for clean.
	ignored         ignorance
	noWait          bool
	ofTarget, force bool

	environment    Environment
	source, target *cluster
	progress       *progress

	// left and arrived are the last observed objects of source and target.
	left, arrived *scope

	// staying are the hosts that stay in the source, because a user created them during the move.
	staying []pivot.Obstacle

	done outcome
}

// outcome is the result of a command.
type outcome struct {
	header    `json:",inline"`
	Namespace string `json:"namespace"`

	// Course is the progress of the move when the command began. Empty if it does not matter.
	Course course `json:"course,omitempty"`
	DryRun bool   `json:"dryRun,omitempty"`

	// Done is true if the command has completed. Refusals are the obstacles.
	Done     bool       `json:"done"`
	Refusals []obstacle `json:"refusals"`

	// Actions are the completed or planned actions.
	Actions []string `json:"actions"`

	// SafeToSwitchOff is true if the source may be switched off. Because has the reason. Nil if it was not checked.
	SafeToSwitchOff *bool      `json:"safeToSwitchOff,omitempty"`
	Because         []obstacle `json:"because,omitempty"`
}

// setupRecovery returns the setup of a command that changes both sides.
func setupRecovery(set *pflag.FlagSet, kind string, work func(*recovery, context.Context) error) runner {
	return (&recovery{}).setup(set, kind, work)
}

// setupMove returns the setup of a command that may move objects.
func setupMove(set *pflag.FlagSet, kind string, work func(*recovery, context.Context) error) runner {
	c := &recovery{}
	c.ignored.add(set)
	return c.setup(set, kind, work)
}

func (c *recovery) setup(set *pflag.FlagSet, kind string, work func(*recovery, context.Context) error) runner {
	c.add(set)
	return c.runner(kind, c.open, func(ctx context.Context) error {
		if err := c.look(ctx); err != nil {
			return err
		}
		return work(c, ctx)
	})
}

// setupSource returns the setup of a command that changes the source. It only reads the target.
func setupSource(set *pflag.FlagSet, c *recovery, kind string, work func(context.Context) error) runner {
	c.add(set)
	return c.runner(kind, c.openSource, work)
}

// add adds the flags of all commands that change a side.
func (c *recovery) add(set *pflag.FlagSet) {
	c.where.add(set)
	set.BoolVar(&c.dryRun, "dry-run", false, "print the actions, and write nothing")
	set.DurationVar(&c.timeout, "timeout", defaultTimeout, "how long to wait until the hosts run")
	addYes(set, &c.yes)
	c.form.add(set)
}

// addSingle adds the flags of a command that changes one side and does not wait.
func (c *recovery) addSingle(set *pflag.FlagSet) {
	c.timeout = defaultTimeout
	c.where.addOne(set, "kubeconfig file of the cluster; default: as kubectl finds it")
	set.BoolVar(&c.dryRun, "dry-run", false, "print the actions, and write nothing")
	addYes(set, &c.yes)
	c.form.add(set)
}

// runner returns a command from a function that connects and a function that works.
func (c *recovery) runner(kind string, open func(Environment) error, work func(context.Context) error) runner {
	return func(ctx context.Context, environment Environment) (int, error) {
		if err := open(environment); err != nil {
			return exitBlind, err
		}
		c.done = outcome{
			header: headerOf(kind), Namespace: c.where.namespace, DryRun: c.dryRun,
			Refusals: []obstacle{}, Actions: []string{},
		}
		err := work(ctx)
		c.progress.end()
		if err != nil {
			return exitBlind, errors.Join(c.interrupted(ctx, err), c.reportUndone())
		}
		if err := c.report(); err != nil {
			return exitBlind, err
		}
		if !c.done.Done {
			return exitNotReady, nil
		}
		return exitDone, nil
	}
}

func (c *recovery) open(environment Environment) error {
	if c.where.toKubeconfig == "" {
		return errors.New("--to-kubeconfig is empty: name the target, which shows the progress of the move")
	}
	return c.openSource(environment)
}

// openSource connects to the source, and to the target if it is named.
func (c *recovery) openSource(environment Environment) error {
	if err := errors.Join(c.form.check(), c.ignored.check()); err != nil {
		return err
	}
	if c.timeout <= 0 {
		return fmt.Errorf("--timeout is %s; use a time above zero, such as 10m", c.timeout)
	}
	c.environment = environment
	var err error
	if c.source, c.target, err = c.where.open(); err != nil {
		return err
	}
	c.progress = newProgress(c.messages())
	return nil
}

// messages returns the writer for progress messages: the standard error if the result is a document.
func (c *recovery) messages() io.Writer {
	if c.form.machine() {
		return c.environment.Errors
	}
	return c.environment.Output
}

// reportUndone writes the document of a command that failed after its first action.
func (c *recovery) reportUndone() error {
	if !c.form.machine() || len(c.done.Actions) == 0 {
		return nil
	}
	c.done.Done = false
	return c.report()
}

// interrupted adds the next command to an error after an interrupt.
func (c *recovery) interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("interrupted: %w; run the same command again to continue, or pivot abort to abort the move", err)
}

// look reads both sides and assesses the progress of the move.
func (c *recovery) look(ctx context.Context) error {
	var err error
	if c.left, err = c.source.survey(ctx, c.where.namespace); err != nil {
		return err
	}
	if c.arrived, err = c.target.survey(ctx, c.where.namespace); err != nil {
		return err
	}
	if c.left.identity == c.arrived.identity {
		return errors.New("--to-kubeconfig names the same cluster as the source: name another one")
	}
	found := assess(c.left, c.arrived, "an object")
	if found.Course == courseUnclear && len(found.Ambiguous) > 0 {
		different, err := c.different(ctx)
		if err != nil {
			return err
		}
		found = assess(c.left, c.arrived, different)
	}
	c.done.Course = found.Course
	if found.Course == courseUnclear {
		return c.refuse("", found.Doubts...)
	}
	return nil
}

// different compares all objects of the source with those of the target, and returns the first that differs. It does
// not read the content of Secrets.
func (c *recovery) different(ctx context.Context) (string, error) {
	for _, each := range removals(c.left, c.arrived) {
		if each.kind == secretKind() {
			continue
		}
		here, there := each.whole(), each.whole()
		key := client.ObjectKeyFromObject(each.object)
		if err := c.source.client.Get(ctx, key, here); err != nil {
			return "", c.source.blind(fmt.Errorf("reading %s: %w", each, err))
		}
		if err := c.target.client.Get(ctx, key, there); err != nil {
			return "", c.target.blind(fmt.Errorf("reading %s: %w", each, err))
		}
		if !equality.Semantic.DeepEqual(here.Object["spec"], there.Object["spec"]) ||
			!equality.Semantic.DeepEqual(here.GetLabels(), there.GetLabels()) {
			return each.String(), nil
		}
	}
	return "", nil
}

func (r removal) whole() *unstructured.Unstructured {
	whole := &unstructured.Unstructured{}
	whole.SetGroupVersionKind(r.kind.WithVersion(r.version))
	return whole
}

// refuse adds an obstacle.
func (c *recovery) refuse(side string, found ...pivot.Obstacle) error {
	c.done.Refusals = append(c.done.Refusals, at(side, found)...)
	return nil
}

// wrongStage adds the obstacle that the command does not match the progress of the move.
func (c *recovery) wrongStage(remedy, message string) error {
	return c.refuse("", pivot.AboutNamed("Namespace", "", c.where.namespace).Blocks(pivot.CodeWrongStage, remedy,
		"%s", message))
}

// act does an action, and records it. A dry run only records it.
func (c *recovery) act(do func() error, format string, values ...any) error {
	what := fmt.Sprintf(format, values...)
	if c.dryRun {
		c.done.Actions = append(c.done.Actions, what)
		return nil
	}
	if err := do(); apierrors.IsConflict(err) {
		return fmt.Errorf("not done: %s: the object %w", what, errChanged)
	} else if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	c.done.Actions = append(c.done.Actions, what)
	return c.progress.say("%s", what)
}

// unpause unpauses the ClusterClasses of one side, then its Clusters, as clusterctl does. A Cluster that has changed
// since the last read stays paused.
func (c *recovery) unpause(ctx context.Context, at *cluster, seen *scope) error {
	if err := c.unpauseClasses(ctx, at, seen.pausedClasses); err != nil {
		return err
	}
	for _, cluster := range seen.clusters {
		if !isPaused(cluster) {
			continue
		}
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"paused":null}}`, cluster.UID,
			cluster.ResourceVersion)
		err := c.act(func() error { return mergePatch(ctx, at.client, cluster.DeepCopy(), patch) },
			"Unpaused Cluster %s in the %s", cluster.Name, at.side)
		if err != nil {
			return err
		}
	}
	return nil
}

func mergePatch(ctx context.Context, c client.Client, object client.Object, patch string) error {
	return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// remove removes objects as clusterctl does, but keeps their other annotations, and with them the pause of a host: BMO
// deprovisions a host that is deleted without the mark.
func (c *recovery) remove(ctx context.Context, at *cluster, objects []removal) error {
	if len(objects) == 0 {
		return nil
	}
	c.progress.begin("Removing", "objects", len(objects))
	return c.act(func() error {
		for i, each := range objects {
			if err := each.remove(ctx, at.client); err != nil {
				return fmt.Errorf("removing %s: %w", each, err)
			}
			c.progress.at(i+1, each.String())
		}
		return nil
	}, "Removed %s in the %s", number(len(objects), "object"), at.side)
}

func (r removal) remove(ctx context.Context, c client.Client) error {
	object := r.object.DeepCopy()
	object.SetGroupVersionKind(r.kind.WithVersion(r.version))
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:""}}}`, object.UID, infrav1.DeleteForMoveAnnotation)
	err := mergePatch(ctx, c, object, patch)
	if err == nil {
		err = c.Delete(ctx, object, client.Preconditions{UID: &object.UID})
	}
	if err == nil && len(object.Finalizers) > 0 {
		err = mergePatch(ctx, c, object, fmt.Sprintf(`{"metadata":{"uid":%q,"finalizers":null}}`, object.UID))
	}
	return client.IgnoreNotFound(err)
}

// awaitHosts waits until no host of a side is paused for the move. At the time limit it returns the hosts that are.
// Only names the Clusters whose hosts it waits for; none means all.
func (c *recovery) awaitHosts(ctx context.Context, at *cluster, only []string) ([]pivot.Obstacle, error) {
	if c.dryRun {
		return nil, nil
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	waiting := []pivot.Obstacle{pivot.AboutNothing().Blocks(pivot.CodeUnreachable, "check that its API server runs",
		"the %s did not answer in time", at.side)}
	for begun := false; ; begun = true {
		seen, err := at.look(limited, c.where.namespace)
		switch {
		case err == nil:
			held := heldByOthers(seen, only)
			if waiting = c.pausedHosts(seen, held, !begun); len(waiting) == 0 {
				return nil, c.tellHeld(held)
			}
		case isPermanent(err):
			return nil, err
		case limited.Err() == nil:
			waiting = []pivot.Obstacle{pivot.AboutNothing().Blocks(pivot.CodeUnreachable, "check that its API server runs",
				"the %s does not answer: %v", at.side, err)}
		}
		select {
		case <-limited.Done():
			return waiting, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// pausedHosts names the hosts that are paused for the move, and shows the progress. Hosts that wait for the Ironic
// endpoint of another namespace have arrived. Held are hosts that do not count.
func (c *recovery) pausedHosts(seen *sight, held []string, isFirst bool) []pivot.Obstacle {
	hosts := summarize([]*sight{seen}).Hosts
	var paused []pivot.Obstacle
	for _, host := range hosts {
		if arrives(host) && !slices.Contains(held, host.Name) {
			paused = append(paused, pivot.AboutNamed("BareMetalHost", host.Namespace, host.Name).Blocks(pivot.CodeHostPaused,
				host.Reason, "BareMetalHost %s is %s", host.Name, host.Phase))
		}
	}
	total := len(hosts) - len(held)
	if isFirst {
		c.progress.begin("Resuming", "hosts", total)
	}
	c.progress.at(total-len(paused), "")
	return paused
}

// finish waits until the hosts of a side run, and says whether they do. Only names the Clusters whose hosts count; none
// means all.
func (c *recovery) finish(ctx context.Context, at *cluster, only ...string) error {
	paused, err := c.awaitHosts(ctx, at, only)
	if err != nil {
		return err
	}
	c.done.Done = len(paused) == 0
	return c.refuse(at.side, paused...)
}
