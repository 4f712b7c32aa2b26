package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/handover"
)

// replicasAnnotation on the Deployment of Ironic holds the replicas that it had before it was scaled down.
const replicasAnnotation = "infrastructure.cluster.x-k8s.io/replicas-before-demotion"

// ironicDeployment names the Deployment of Ironic in config/ironic.
func ironicDeployment() client.ObjectKey {
	return client.ObjectKey{Namespace: handover.Namespace, Name: ironic.IronicPod}
}

func replicas(deployment *appsv1.Deployment) int32 { return ptr.Deref(deployment.Spec.Replicas, 1) }

// scaleDown scales the Deployment to zero, and returns the previous number of replicas. The same request writes the
// annotation with that number. It does not change a Deployment that is scaled down already.
func scaleDown(ctx context.Context, c client.Client) (before int32, err error) {
	err = changeDeployment(ctx, c, func(deployment *appsv1.Deployment) map[string]any {
		before = replicas(deployment)
		if before == 0 {
			return nil
		}
		return scalePatch(0, strconv.Itoa(int(before)))
	})
	return before, err
}

// scaleUp scales the Deployment to the given replicas, and removes the annotation.
func scaleUp(ctx context.Context, c client.Client, to int32) error {
	return changeDeployment(ctx, c, func(*appsv1.Deployment) map[string]any { return scalePatch(to, nil) })
}

// scalePatch sets the replicas and the annotation. Nil removes the annotation.
func scalePatch(to int32, remembered any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{replicasAnnotation: remembered}},
		"spec":     map[string]any{"replicas": to},
	}
}

// changeDeployment reads the Deployment, patches it with the result of decide, and retries after a conflict. A nil
// patch changes nothing.
func changeDeployment(ctx context.Context, c client.Client, decide func(*appsv1.Deployment) map[string]any) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		deployment := &appsv1.Deployment{}
		if err := c.Get(ctx, ironicDeployment(), deployment); err != nil {
			return err
		}
		changes := decide(deployment)
		if changes == nil {
			return nil
		}
		metadata, _ := changes["metadata"].(map[string]any)
		metadata["resourceVersion"] = deployment.ResourceVersion
		patch, err := json.Marshal(changes)
		if err != nil {
			return err
		}
		return c.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, patch))
	})
}

// remembered returns the replicas of the Deployment before it was scaled down, or why they are unknown.
func remembered(deployment *appsv1.Deployment) (before int32, problems []pivot.Obstacle) {
	text, found := deployment.Annotations[replicasAnnotation]
	if !found {
		return 0, []pivot.Obstacle{pivot.About("Deployment", deployment).Blocks(pivot.CodeNotDemoted, "use kubectl scale",
			"Deployment %s has no annotation %s, so it was not demoted by this command", ironicDeployment(), replicasAnnotation)}
	}
	count, err := strconv.ParseInt(text, 10, 32)
	if err != nil || count < 1 {
		return 0, []pivot.Obstacle{pivot.About("Deployment", deployment).Blocks(pivot.CodeNotDemoted,
			"use kubectl scale, and remove the annotation",
			"annotation %s of Deployment %s is %q, which is no number of replicas",
			replicasAnnotation, ironicDeployment(), text)}
	}
	return int32(count), []pivot.Obstacle{}
}

// restore undoes a handover.
func (c *handoverCommand) restore(ctx context.Context, deployment *appsv1.Deployment) (int, error) {
	before, problems := remembered(deployment)
	done := handoverResult{
		header: headerOf("Handover"), Deployment: ironicDeployment().String(), DryRun: c.dryRun, Refusals: problems,
		Before: replicas(deployment), After: replicas(deployment),
	}
	if len(problems) > 0 {
		return exitNotReady, c.refuse(done, false)
	}
	isTaken, note, err := c.takesBack(ctx, deployment.Labels[ironic.ClusterLabel])
	if err != nil {
		return exitBlind, err
	}
	if isTaken {
		question := fmt.Sprintf("Deployment %s is scaled from %d to %d replicas. The database of the Ironic that has the "+
			"VIP is lost.", ironicDeployment(), done.Before, before)
		done.Refusals, err = c.askTaking(ctx, question)
		switch done.Forced = len(done.Refusals) > 0 && c.force; {
		case errors.Is(err, errNotConfirmed):
			return exitNotReady, err
		case err != nil:
			return exitBlind, err
		case len(done.Refusals) > 0 && !c.force:
			return exitNotReady, c.refuse(done, true)
		}
	}
	done.After, done.Notes = before, append(done.Notes, note)
	if !c.dryRun {
		if err := scaleUp(ctx, c.management.client, before); err != nil {
			return exitBlind, fmt.Errorf("scaling Deployment %s up: %w; check that you may patch it", ironicDeployment(), err)
		}
	}
	return exitDone, c.finish(done)
}

// askTaking asks for confirmation if there is no obstacle. It returns the obstacles after the answer.
func (c *handoverCommand) askTaking(ctx context.Context, question string) ([]pivot.Obstacle, error) {
	refusals, err := c.takingRefusals(ctx)
	if err != nil || len(refusals) > 0 && !c.force || c.dryRun {
		return refusals, err
	}
	if err := confirm(ctx, c.environment, c.yes, question); err != nil {
		return nil, err
	}
	return c.takingRefusals(ctx)
}

// takingRefusals returns obstacles for the busy hosts in all namespaces of both clusters.
func (c *handoverCommand) takingRefusals(ctx context.Context) ([]pivot.Obstacle, error) {
	everywhere, err := c.home.look(ctx, "")
	if err != nil {
		return nil, err
	}
	stayed, err := c.busyHosts(ctx, everywhere.hosts)
	return slices.Concat([]pivot.Obstacle{}, busyAmong(everywhere.hosts, c.home.side, nil), stayed), err
}

// takesBack returns whether the Ironic takes the VIP when it runs again, and why.
func (c *handoverCommand) takesBack(ctx context.Context, clusterID string) (isTaken bool, note string, err error) {
	notice := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: handover.Namespace, Name: handover.Name}
	if err := c.management.client.Get(ctx, key, notice); client.IgnoreNotFound(err) != nil {
		return false, "", c.management.blind(fmt.Errorf("reading ConfigMap %s: %w", key, err))
	}
	if _, handedOver := notice.Data[clusterID]; handedOver {
		return false, fmt.Sprintf("it does not take the address, because ConfigMap %s names clusterID %s: pivot yield "+
			"--undo --cluster-id %s removes that key", key, clusterID, clusterID), nil
	}
	return true, "it takes the address back as soon as it is healthy, because it has the higher priority", nil
}

// patience waits until the control plane of a cluster holds the VIP and its Ironic has registered all hosts.
type patience struct {
	home  *cluster
	key   client.ObjectKey
	limit time.Duration
	tell  func(format string, values ...any) error

	began  time.Time
	report arrivalReport

	// notes name the hosts that the command does not wait for.
	notes []string
}

func newPatience(c *handoverCommand, key client.ObjectKey) *patience {
	return &patience{
		home: c.home, key: key, limit: c.timeout, tell: c.tell,
		report: arrivalReport{Problem: "nothing was seen before it ended"},
	}
}

// wait returns when the handover is complete, at the limit, or when the context ends. It repeats failed reads, because
// an API server may fail for a while during a handover.
func (p *patience) wait(ctx context.Context) arrivalReport {
	p.began = time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	// The report has the reason already.
	_ = wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		infra, hosts, err := p.look(ctx)
		if err != nil {
			if ctx.Err() == nil {
				p.report.Problem = err.Error()
			}
			return false, nil
		}
		return p.judge(infra, hosts)
	})
	p.report.Done = p.report.KnownSeconds != nil
	return p.report
}

func (p *patience) look(ctx context.Context) (*infrav1.Metal3Cluster, int, error) {
	infra := &infrav1.Metal3Cluster{}
	if err := p.home.client.Get(ctx, p.key, infra); err != nil {
		return nil, 0, p.home.blind(fmt.Errorf("reading Metal3Cluster %s: %w", p.key, err))
	}
	seen, err := p.home.look(ctx, p.key.Namespace)
	if err != nil {
		return nil, 0, err
	}
	name := infra.Labels[clusterv1.ClusterNameLabel]
	if cluster := seen.clusterOf(infra); cluster != nil {
		name = cluster.Name
	}
	hosts, notes := seen.hostsOf(name)
	p.notes = notes
	return infra, hosts, nil
}

// judge reports an observation, and returns whether the handover is complete. It returns an error if the output fails.
func (p *patience) judge(infra *infrav1.Metal3Cluster, hosts int) (bool, error) {
	passed := time.Since(p.began)
	p.report.Hosts, p.report.Problem = hosts, ""
	holder := pivot.Holder(infra)
	if holder == nil || holder.Kind != infrav1.HolderControlPlane {
		p.report.Holder, p.report.KnownHosts = "", 0
		p.report.Problem = "no node of the control plane holds the endpoint"
		if holder != nil {
			p.report.Holder = holderWords(*holder)
		}
		if endpoint := pivot.EndpointOutcome(infra); !endpoint.IsDone() {
			p.report.Problem += ": " + endpoint.Message
		}
		return false, nil
	}
	p.report.Holder = holderWords(*holder)
	p.report.KnownHosts = ptr.Deref(infra.Status.Ironic.KnownHosts, 0)
	if p.report.HolderSeconds == nil {
		p.report.HolderSeconds = ptr.To(passed.Seconds())
		if err := p.tell("%s holds the endpoint after %s.", p.report.Holder, seconds(passed)); err != nil {
			return false, err
		}
	}
	if infra.Status.Ironic.KnownHosts == nil || int(p.report.KnownHosts) < hosts {
		p.report.Problem = fmt.Sprintf("its Ironic has registered %d of %s: see their conditions and events",
			p.report.KnownHosts, number(hosts, "host"))
		return false, nil
	}
	p.report.KnownSeconds = ptr.To(passed.Seconds())
	return true, p.tell("Its Ironic has registered %d of %s after %s.", p.report.KnownHosts, number(hosts, "host"),
		seconds(passed))
}
