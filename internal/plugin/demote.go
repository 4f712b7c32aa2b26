package plugin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)

const (
	// defaultTimeout is how long handover waits for the control plane.
	defaultTimeout = 10 * time.Minute

	// pollEvery is the interval between two reads, and the precision of the reported times.
	pollEvery = 500 * time.Millisecond
)

// handoverCommand is handover with its flags.
type handoverCommand struct {
	where               sides
	form                output
	dryRun, force, undo bool
	yes                 bool
	timeout             time.Duration

	// management runs the Ironic that is scaled down. Home has the hosts.
	management, home *cluster

	environment Environment

	// progress receives messages, and result the output.
	progress, result io.Writer
}

// handoverResult is the output of handover.
type handoverResult struct {
	header `json:",inline"`

	Deployment string `json:"deployment"`
	DryRun     bool   `json:"dryRun,omitempty"`
	Forced     bool   `json:"forced,omitempty"`

	// Refusals are the obstacles. With --force, they were ignored.
	Refusals []pivot.Obstacle `json:"refusals"`

	// Replicas of the Deployment before and after.
	Before int32 `json:"replicasBefore"`
	After  int32 `json:"replicasAfter"`

	// Handover is the observed handover. Nil without --wait.
	Handover *arrivalReport `json:"handover,omitempty"`

	// Notes are on an undone handover, and on the hosts that the command did not wait for.
	Notes []string `json:"notes,omitempty"`
}

// arrivalReport is an observed handover. Times count from the scaling of the Deployment.
type arrivalReport struct {
	// Done is true if a node holds the VIP and its Ironic has registered all hosts.
	Done bool `json:"done"`

	// Holder is the last observed VIP holder. HolderSeconds is the time until a node of the control plane was the holder.
	Holder        string   `json:"holder,omitempty"`
	HolderSeconds *float64 `json:"holderSeconds,omitempty"`

	// KnownHosts of Hosts are registered with its Ironic, and all of them after KnownSeconds. Both omit hosts that BMO
	// does not keep in Ironic.
	KnownHosts   int32    `json:"knownHosts"`
	Hosts        int      `json:"hosts"`
	KnownSeconds *float64 `json:"knownSeconds,omitempty"`

	// Problem is the last obstacle. Empty if Done.
	Problem string `json:"problem,omitempty"`
}

func setupDemote(set *pflag.FlagSet) runner {
	c := &handoverCommand{}
	c.where.add(set)
	set.BoolVar(&c.dryRun, "dry-run", false, "print the actions, and write nothing")
	set.BoolVar(&c.force, "force", false, "ignore the reasons to refuse")
	set.BoolVar(&c.undo, "undo", false, "restore the number of replicas of the Ironic of the management cluster")
	set.DurationVar(&c.timeout, "timeout", defaultTimeout, "how long to wait for the control plane")
	addYes(set, &c.yes)
	c.form.add(set)
	return c.run
}

func (c *handoverCommand) run(ctx context.Context, environment Environment) (int, error) {
	if err := c.prepare(environment); err != nil {
		return exitBlind, err
	}
	deployment := &appsv1.Deployment{}
	if err := c.management.client.Get(ctx, ironicDeployment(), deployment); err != nil {
		return exitBlind, c.management.blind(fmt.Errorf("reading Deployment %s: %w", ironicDeployment(), err))
	}
	if c.undo {
		return c.restore(ctx, deployment)
	}
	done, served, err := c.judge(ctx, deployment)
	// If the Deployment is scaled down already, the command only waits.
	if err == nil && c.may(done, served) && done.Before > 0 && !c.dryRun {
		question := fmt.Sprintf("Deployment %s is scaled from %d to 0 replicas. The database of its Ironic is lost.",
			ironicDeployment(), done.Before)
		if err := confirm(ctx, c.environment, c.yes, question); err != nil {
			return exitNotReady, err
		}
		// Objects may have changed during the confirmation.
		done, served, err = c.judge(ctx, deployment)
	}
	if err != nil {
		return exitBlind, err
	}
	if !c.may(done, served) {
		return exitNotReady, c.refuse(done, served != nil)
	}
	done.Forced = len(done.Refusals) > 0
	return c.scaleDown(ctx, done, served)
}

// may returns true if no obstacle exists, or only obstacles that force overrides.
func (c *handoverCommand) may(done handoverResult, served *infrav1.Metal3Cluster) bool {
	return served != nil && (len(done.Refusals) == 0 || c.force)
}

// judge returns the clusters that the Deployment serves, and the obstacles of a handover. A Deployment that is scaled
// down has no obstacles.
func (c *handoverCommand) judge(ctx context.Context, deployment *appsv1.Deployment) (
	done handoverResult, served *infrav1.Metal3Cluster, err error,
) {
	seen, err := c.home.look(ctx, c.where.namespace)
	if err != nil {
		return handoverResult{}, nil, err
	}
	served, refusals := chooseServed(deployment, seen, c.home.flag)
	if served != nil && replicas(deployment) > 0 {
		refusals, err = c.refusals(ctx, seen, served)
	}
	return handoverResult{
		header: headerOf("Handover"), Deployment: ironicDeployment().String(), DryRun: c.dryRun, Refusals: refusals,
		Before: replicas(deployment), After: replicas(deployment),
	}, served, err
}

func (c *handoverCommand) prepare(environment Environment) error {
	if err := c.form.check(); err != nil {
		return err
	}
	if c.timeout <= 0 {
		return fmt.Errorf("--timeout is %s; use a time above zero, such as 10m", c.timeout)
	}
	var err error
	if c.management, c.home, err = c.where.open(); err != nil {
		return err
	}
	if c.home == nil {
		// The nodes of a cluster may take the VIP without a move. Then the hosts stay in the first management cluster.
		c.home = c.management
	}
	c.environment, c.result, c.progress = environment, environment.Output, environment.Output
	if c.form.machine() {
		c.progress = environment.Errors
	}
	return nil
}

// refusals are the reasons against a handover that force overrides.
func (c *handoverCommand) refusals(ctx context.Context, seen *sight, served *infrav1.Metal3Cluster,
) ([]pivot.Obstacle, error) {
	refusals, err := c.home.manager(ctx)
	if err != nil {
		return nil, err
	}
	// BMO uses one Ironic for the hosts of all namespaces.
	everywhere, err := c.home.look(ctx, "")
	if err != nil {
		return nil, err
	}
	refusals = append(refusals, pivot.DemotionObstacles(seen.demotionFacts(served, everywhere.hosts))...)
	if holder := pivot.Holder(served); holder != nil && holder.Kind == infrav1.HolderControlPlane {
		return refusals, nil
	}
	stayed, err := c.busyHosts(ctx, everywhere.hosts)
	if err != nil {
		return nil, err
	}
	abandoned, err := c.abandoned(ctx, served.Spec.Ironic.ClusterID, everywhere.hosts)
	return slices.Concat(refusals, stayed, abandoned), err
}

// busyHosts returns obstacles for the busy hosts of the management cluster, in all namespaces. It omits known hosts,
// because both flags may name one cluster, and hosts that a move deletes, because they have arrived in the target. The
// Ironic of a host is not known, so each busy host counts.
func (c *handoverCommand) busyHosts(ctx context.Context, known []*bmov1alpha1.BareMetalHost,
) ([]pivot.Obstacle, error) {
	hosts, err := hoststore.New(c.management.client, c.management.client).Hosts(ctx, "")
	switch {
	case lacksKind(err):
		return nil, nil
	case err != nil:
		return nil, c.management.blind(err)
	}
	seen := map[types.UID]bool{}
	for _, host := range known {
		seen[host.UID] = true
	}
	return busyAmong(hosts, c.management.side, seen), nil
}

// busyAmong returns obstacles for the busy hosts of a side, without the known hosts.
func busyAmong(hosts []*bmov1alpha1.BareMetalHost, at string, known map[types.UID]bool) []pivot.Obstacle {
	var found []pivot.Obstacle
	for _, host := range hosts {
		if busy := pivot.Busy(host); busy != "" && !infrav1.IsLeaving(host) && !known[host.UID] {
			found = append(found, pivot.About("BareMetalHost", host).Blocks(pivot.CodeHostBusy,
				"wait until it is done, because the Ironic there may be working on it",
				"host %s/%s of the %s cluster is %s", host.Namespace, host.Name, at, busy))
		}
	}
	return found
}

// demotionFacts returns the facts of one Metal3Cluster.
func (s *sight) demotionFacts(infra *infrav1.Metal3Cluster, hosts []*bmov1alpha1.BareMetalHost) pivot.DemotionFacts {
	cluster := s.clusterOf(infra)
	return pivot.DemotionFacts{
		Infra: infra, Paused: cluster != nil && ptr.Deref(cluster.Spec.Paused, false), Hosts: hosts,
	}
}

// chooseServed returns the Metal3Cluster whose Ironic endpoint the Deployment serves. If several share the endpoint, it
// returns the first with the fewest obstacles: one node that can take the VIP is enough. It returns an obstacle if
// there is none.
func chooseServed(deployment *appsv1.Deployment, seen *sight, flag string) (*infrav1.Metal3Cluster, []pivot.Obstacle) {
	clusterID := deployment.Labels[ironic.ClusterLabel]
	var served *infrav1.Metal3Cluster
	var others []string
	least := 0
	for _, infra := range seen.infras {
		switch {
		case infra.Spec.Ironic == nil:
		case infra.Spec.Ironic.ClusterID != clusterID:
			others = append(others, fmt.Sprintf("%s has %q", infra.Name, infra.Spec.Ironic.ClusterID))
		default:
			obstacles := len(pivot.DemotionObstacles(seen.demotionFacts(infra, nil)))
			if served == nil || obstacles < least {
				served, least = infra, obstacles
			}
		}
	}
	if served != nil {
		return served, []pivot.Obstacle{}
	}
	remedy := "name the target cluster with --to-kubeconfig, and its namespace with --namespace"
	if len(others) == 0 {
		return nil, []pivot.Obstacle{pivot.AboutNamed("Namespace", "", seen.namespace).Blocks(pivot.CodeNoEndpoint, remedy,
			"namespace %s of %s has no Metal3Cluster with spec.ironic", seen.namespace, flag)}
	}
	return nil, []pivot.Obstacle{pivot.About("Deployment", deployment).Blocks(pivot.CodeNoEndpoint, remedy,
		"Deployment %s serves clusterID %q, and in namespace %s of %s %s",
		client.ObjectKeyFromObject(deployment), clusterID, seen.namespace, flag, strings.Join(others, ", "))}
}

// scaleDown scales the Deployment to zero and waits.
func (c *handoverCommand) scaleDown(
	ctx context.Context, done handoverResult, served *infrav1.Metal3Cluster,
) (int, error) {
	done.After = 0
	for _, refusal := range done.Refusals {
		if err := c.tell("Ignored because of --force: %s", refusal); err != nil {
			return exitBlind, err
		}
	}
	if c.dryRun {
		return exitDone, c.finish(done)
	}
	before, err := scaleDown(ctx, c.management.client)
	if err != nil {
		return exitBlind, fmt.Errorf("scaling Deployment %s down: %w; check that you may patch it", ironicDeployment(), err)
	}
	done.Before = before
	if err := c.tellScaled(before); err != nil {
		return exitBlind, err
	}
	patience := newPatience(c, client.ObjectKeyFromObject(served))
	arrived := patience.wait(ctx)
	done.Handover, done.Notes = &arrived, patience.notes
	if err := c.finish(done); err != nil {
		return exitBlind, err
	}
	if !arrived.Done {
		return exitNotReady, nil
	}
	return exitDone, nil
}

func (c *handoverCommand) tellScaled(before int32) error {
	if before == 0 {
		return c.tell("Deployment %s has 0 replicas already; waiting for the control plane.", ironicDeployment())
	}
	return c.tell("Deployment %s has 0 replicas now, before %d; waiting for the control plane.",
		ironicDeployment(), before)
}

func (c *handoverCommand) tell(format string, values ...any) error {
	return say(c.progress, format, values...)
}
