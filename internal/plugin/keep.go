package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// keeping is the command keep.
type keeping struct {
	recovery
	name, backup string
}

func setupKeep(set *pflag.FlagSet) runner {
	c := &keeping{}
	c.addFlags(set)
	set.DurationVar(&c.timeout, "timeout", defaultTimeout, "how long to wait until the old object is gone")
	return c.runner("PivotKeep", c.open, c.keep)
}

// addFlags adds the flags of a command about one held host.
func (c *keeping) addFlags(set *pflag.FlagSet) {
	set.StringVar(&c.name, "host", "", "name of the BareMetalHost")
	set.StringVar(&c.backup, "backup", "",
		"file for the host and what it owns, before the object is removed; default: <namespace>-<host>.yaml")
	c.addSingle(set)
}

func (c *keeping) open(environment Environment) error {
	if c.name == "" {
		return errors.New("--host is empty: name the BareMetalHost")
	}
	if err := c.openSource(environment); err != nil {
		return err
	}
	if c.backup == "" {
		c.backup = fmt.Sprintf("%s-%s.yaml", c.where.namespace, c.name)
	}
	return nil
}

// remedy is the change that keeps a host. Each of its objects names an object and the change.
type remedy struct {
	intent
	do func() error
}

// keep resumes a held host without an action of BMO on the machine.
func (c *keeping) keep(ctx context.Context) error {
	var chosen remedy
	confirmed, err := c.confirm(ctx, func() (_ intent, refusals []pivot.Obstacle, err error) {
		chosen, refusals, err = c.remedyOf(ctx)
		return chosen.intent, refusals, err
	})
	if !confirmed || err != nil {
		return err
	}
	err = chosen.do()
	c.done.Done = err == nil
	return err
}

// remedyOf reads the host, and returns the remedy for it. The first row that matches counts.
//
//	host                                             remedy
//	was being deleted when it arrived                replaces the object: BMO restores the arrived status of the new one
//	has a newer status, and BMO keepsDisks           removes the arrived status
//	has a newer status otherwise                     refuses: BMO would wipe the host
//	was left by an earlier move                      removes the epoch: the manager resumes the host
//	lost its status, and a Metal3Machine claims it   refuses: the manager resumes the host when its Node joins
//	lost its status, and unpause would refuse        refuses for the same reason
//	lost its status                                  records that it is provisioned, and removes the pause
//	any other                                        refuses: nothing holds the host
func (c *keeping) remedyOf(ctx context.Context) (remedy, []pivot.Obstacle, error) {
	seen, err := c.source.look(ctx, c.where.namespace)
	if err != nil {
		return remedy{}, nil, err
	}
	host := &bmov1alpha1.BareMetalHost{}
	key := client.ObjectKey{Namespace: c.where.namespace, Name: c.name}
	if err := c.source.client.Get(ctx, key, host); err != nil {
		return remedy{}, nil, c.source.blind(fmt.Errorf("reading BareMetalHost %s: %w", key, err))
	}
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	switch arrived := pivot.ArrivalOf(host); {
	case pivot.ArrivedDeleted(host, seen.around):
		return c.replacement(ctx, host)
	case paused && arrived == pivot.ArrivalOutdated:
		return c.retaining(ctx, host)
	case paused && pivot.Abandoned(host, seen.around):
		return c.change(ctx, host, "keep it, although it was deleted in the source", changes{
			infrav1.MoveEpochAnnotation: nil,
		})
	case pivot.LostStatus(host):
		return c.recording(ctx, host, seen.around)
	default:
		return remedy{}, []pivot.Obstacle{pivot.About("BareMetalHost", host).Blocks(pivot.CodeWrongStage, "see pivot status",
			"BareMetalHost %s is %s, so pivot keep does not apply to it", c.name, pivot.PhaseOf(host, seen.around))}, nil
	}
}

// retaining is the remedy for a host whose status is newer than the one that arrived.
func (c *keeping) retaining(ctx context.Context, host *bmov1alpha1.BareMetalHost) (remedy, []pivot.Obstacle, error) {
	if !keepsDisks(host) {
		return remedy{}, []pivot.Obstacle{pivot.About("BareMetalHost", host).Blocks(pivot.CodeLeftover,
			"correct spec.image, or remove the host from the cluster",
			"BareMetalHost %s is %s and does not run the image of its spec, so BMO would wipe it", c.name,
			cmp.Or(host.Status.Provisioning.State, "in no state"))}, nil
	}
	return c.change(ctx, host, "keep its own status, which is newer than the one that arrived", changes{
		bmov1alpha1.StatusAnnotation: nil, infrav1.StatusOriginAnnotation: nil,
	})
}

// recording is the remedy for a host that lost its status: it is marked as provisioned. It refuses what unpause
// refuses, except for a host of a Cluster that does not exist: the user decides that the system on it is kept.
func (c *keeping) recording(
	ctx context.Context, host *bmov1alpha1.BareMetalHost, around []pivot.Neighbour,
) (remedy, []pivot.Obstacle, error) {
	claimed, err := c.isClaimed(ctx, host)
	if err != nil {
		return remedy{}, nil, err
	}
	if claimed {
		return remedy{}, []pivot.Obstacle{pivot.About("BareMetalHost", host).Blocks(pivot.CodeHostPaused,
			"wait until its Node joins",
			"BareMetalHost %s lost its status, and is claimed by %s", c.name, host.Spec.ConsumerRef.Name)}, nil
	}
	status, err := provisionedStatus(host)
	if err != nil {
		return remedy{}, nil, err
	}
	_, left, err := c.source.departed(ctx, host.Namespace)
	if err != nil {
		return remedy{}, nil, err
	}
	marked := host.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, bmov1alpha1.StatusAnnotation, status)
	refusals := slices.DeleteFunc(pivot.UnpauseObstacles(marked, around, left), func(each pivot.Obstacle) bool {
		return each.Code == pivot.CodeClusterMissing
	})
	if len(refusals) > 0 {
		return remedy{}, refusals, nil
	}
	return c.change(ctx, host, "mark it as provisioned with the image of its spec", changes{
		bmov1alpha1.StatusAnnotation: status, bmov1alpha1.PausedAnnotation: nil, infrav1.PauseReasonAnnotation: nil,
	})
}

// keepsDisks returns true for a host that BMO neither provisions nor deprovisions, now or in a later state. The first
// row that matches counts.
//
//	state                   spec                             status                            keeps its disks
//	externally provisioned  has externallyProvisioned        any                               yes
//	available, ready        has no image and customDeploy    has no image and customDeploy     yes
//	provisioned             has an image                     has it, and the same method       yes
//	provisioned             has a customDeploy               has the same method and no image  yes
//	any other               any                              any                               no
func keepsDisks(host *bmov1alpha1.BareMetalHost) bool {
	spec, status := &host.Spec, &host.Status.Provisioning
	deploy := methodOf(spec.CustomDeploy)
	switch status.State {
	case bmov1alpha1.StateExternallyProvisioned:
		return spec.ExternallyProvisioned
	case bmov1alpha1.StateAvailable, bmov1alpha1.StateReady:
		return spec.Image == nil && deploy == "" && status.Image.URL == "" && methodOf(status.CustomDeploy) == ""
	case bmov1alpha1.StateProvisioned:
		isSame := spec.Image != nil && equality.Semantic.DeepEqual(status.Image, *spec.Image)
		return methodOf(status.CustomDeploy) == deploy && (isSame || deploy != "" && status.Image.URL == "")
	default:
		return false
	}
}

// methodOf returns the method of a custom deployment. Empty if there is none.
func methodOf(deploy *bmov1alpha1.CustomDeploy) string {
	if deploy == nil {
		return ""
	}
	return deploy.Method
}

// provisionedStatus returns the status of a host that runs its image.
func provisionedStatus(host *bmov1alpha1.BareMetalHost) (string, error) {
	provisioning := map[string]any{"state": bmov1alpha1.StateProvisioned, "ID": ""}
	if host.Spec.Image != nil {
		provisioning["image"] = host.Spec.Image
	}
	if host.Spec.CustomDeploy != nil {
		provisioning["customDeploy"] = host.Spec.CustomDeploy
	}
	content, err := json.Marshal(map[string]any{
		"operationalStatus": bmov1alpha1.OperationalStatusOK, "errorMessage": "", "errorCount": 0,
		"poweredOn": host.Spec.Online, "provisioning": provisioning,
	})
	if err != nil {
		return "", fmt.Errorf("writing the status of BareMetalHost %s: %w", host.Name, err)
	}
	return string(content), nil
}

// changes are annotations. Nil removes an annotation.
type changes map[string]any

// change is a remedy that patches annotations of the host. It does nothing to a host that has changed since the last
// read.
func (c *keeping) change(
	ctx context.Context, host *bmov1alpha1.BareMetalHost, what string, annotations changes,
) (remedy, []pivot.Obstacle, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": host.ResourceVersion, "annotations": annotations,
	}})
	if err != nil {
		return remedy{}, nil, fmt.Errorf("writing the change of BareMetalHost %s: %w", host.Name, err)
	}
	question := fmt.Sprintf("BareMetalHost %s/%s: %s.", host.Namespace, host.Name, what)
	return remedy{intent{question, []string{question}}, func() error {
		return c.act(func() error { return mergePatch(ctx, c.source.client, host, string(patch)) },
			"Changed BareMetalHost %s: %s", host.Name, what)
	}}, nil, nil
}
