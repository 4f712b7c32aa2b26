package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

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
	return c.runner("PivotKeep", c.open, func(ctx context.Context) error {
		err := c.keep(ctx)
		c.done.Done = len(c.done.Refusals) == 0
		return err
	})
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

// keep resumes a held host without an action of BMO on the machine. The first row that matches counts.
//
//	host                                             keep
//	was being deleted when it arrived                replaces the object: BMO restores the arrived status of the new one
//	has a newer status, and BMO keepsDisks           removes the arrived status
//	has a newer status otherwise                     refuses: BMO would wipe the host
//	was left by an earlier move                      removes the epoch: the manager resumes the host
//	lost its status, and a Metal3Machine claims it   refuses: the manager resumes the host when its Node joins
//	lost its status                                  records that it is provisioned, and removes the pause
//	any other                                        refuses: nothing holds the host
func (c *keeping) keep(ctx context.Context) error {
	seen, err := c.source.look(ctx, c.where.namespace)
	if err != nil {
		return err
	}
	host := &bmov1alpha1.BareMetalHost{}
	key := client.ObjectKey{Namespace: c.where.namespace, Name: c.name}
	if err := c.source.client.Get(ctx, key, host); err != nil {
		return c.source.blind(fmt.Errorf("reading BareMetalHost %s: %w", key, err))
	}
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	switch arrived := pivot.ArrivalOf(host); {
	case paused && arrived == pivot.ArrivalDeleted:
		return c.replace(ctx, host)
	case paused && arrived == pivot.ArrivalOutdated:
		return c.keepNewer(ctx, host)
	case paused && pivot.Abandoned(host, seen.around):
		return c.change(ctx, host, "keep it, although it was deleted in the source", changes{
			infrav1.MoveEpochAnnotation: nil,
		})
	case pivot.LostStatus(host):
		return c.keepUnknown(ctx, host)
	default:
		return c.refuse("", pivot.About("BareMetalHost", host).Blocks(pivot.CodeWrongStage, "see pivot status",
			"BareMetalHost %s is %s, so pivot keep does not apply to it", c.name, pivot.PhaseOf(host, seen.around)))
	}
}

// keepNewer keeps a status that is newer than the one that arrived.
func (c *keeping) keepNewer(ctx context.Context, host *bmov1alpha1.BareMetalHost) error {
	if !keepsDisks(host) {
		return c.refuse("", pivot.About("BareMetalHost", host).Blocks(pivot.CodeLeftover,
			"correct spec.image, or remove the host from the cluster",
			"BareMetalHost %s is %s and does not run the image of its spec, so BMO would wipe it", c.name,
			cmp.Or(host.Status.Provisioning.State, "in no state")))
	}
	return c.change(ctx, host, "keep its own status, which is newer than the one that arrived", changes{
		bmov1alpha1.StatusAnnotation: nil, infrav1.StatusOriginAnnotation: nil,
	})
}

// keepUnknown marks a host as provisioned that lost its status.
func (c *keeping) keepUnknown(ctx context.Context, host *bmov1alpha1.BareMetalHost) error {
	claimed, err := c.isClaimed(ctx, host)
	if err != nil {
		return err
	}
	if claimed {
		return c.refuse("", pivot.About("BareMetalHost", host).Blocks(pivot.CodeHostPaused, "wait until its Node joins",
			"BareMetalHost %s lost its status, and is claimed by %s", c.name, host.Spec.ConsumerRef.Name))
	}
	status, err := provisionedStatus(host)
	if err != nil {
		return err
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

// change patches annotations of the host. It returns an error if the host has changed since the last read.
func (c *keeping) change(
	ctx context.Context, host *bmov1alpha1.BareMetalHost, what string, annotations changes,
) error {
	if err := c.ask(fmt.Sprintf("BareMetalHost %s/%s: %s.", host.Namespace, host.Name, what)); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": host.ResourceVersion, "annotations": annotations,
	}})
	if err != nil {
		return fmt.Errorf("writing the change of BareMetalHost %s: %w", host.Name, err)
	}
	return c.act(func() error { return mergePatch(ctx, c.source.client, host, string(patch)) },
		"Changed BareMetalHost %s: %s", host.Name, what)
}

// replace replaces a host that is being deleted, with the objects that it owns. BMO does not act on the host: the old
// object is paused until it is gone, and the new object has the status in its annotation.
func (c *keeping) replace(ctx context.Context, host *bmov1alpha1.BareMetalHost) error {
	saved, err := c.save(ctx, host)
	if err != nil {
		return err
	}
	question := fmt.Sprintf(
		"BareMetalHost %s/%s is being deleted. It is saved in %s with %s that it owns, and created anew.",
		host.Namespace, host.Name, c.backup, number(len(saved)-1, "object"))
	if err := c.ask(question); err != nil {
		return err
	}
	err = c.act(func() error { return writeBackup(c.backup, saved) },
		"Saved %s in %s", number(len(saved), "object"), c.backup)
	if err != nil {
		return err
	}
	return c.act(func() error {
		// The backup must be complete before the first removal, because the host is created again from it.
		for _, each := range saved {
			if err := c.discard(ctx, each); err != nil {
				return fmt.Errorf("%w; create what is missing with kubectl create --filename %s", err, c.backup)
			}
		}
		if err := c.recreate(ctx, saved); err != nil {
			return fmt.Errorf("%w; create what is missing with kubectl create --filename %s", err, c.backup)
		}
		return nil
	}, "Replaced BareMetalHost %s", host.Name)
}

// save reads the host and all objects that it owns, the host first.
func (c *keeping) save(ctx context.Context, host *bmov1alpha1.BareMetalHost) ([]*unstructured.Unstructured, error) {
	found, err := c.withBelongings(ctx, host)
	if err != nil {
		return nil, err
	}
	return c.read(ctx, host.Namespace, found)
}

// withBelongings returns the host and all objects that it owns, the host first.
func (c *keeping) withBelongings(ctx context.Context, host *bmov1alpha1.BareMetalHost) ([]removal, error) {
	seen, err := c.source.survey(ctx, c.where.namespace)
	if err != nil {
		return nil, err
	}
	found := []removal{{
		located: located{kind: bmov1alpha1.GroupVersion.WithKind("BareMetalHost").GroupKind(), name: host.Name},
		version: bmov1alpha1.GroupVersion.Version,
		object:  &metav1.PartialObjectMetadata{ObjectMeta: host.ObjectMeta},
	}}
	for _, definition := range append(seen.definitions, definition{Storage: "v1", Kind: secretKind()}) {
		objects := seen.all(definition.Kind)
		for _, name := range sortedKeys(objects) {
			if isOwnedBy(objects[name], host.UID) {
				found = append(found, removal{located{definition.Kind, name}, definition.Storage, objects[name]})
			}
		}
	}
	return found, nil
}

// read reads whole objects.
func (c *keeping) read(ctx context.Context, namespace string, found []removal) ([]*unstructured.Unstructured, error) {
	saved := make([]*unstructured.Unstructured, 0, len(found))
	for _, each := range found {
		whole := each.whole()
		key := client.ObjectKey{Namespace: namespace, Name: each.name}
		if err := c.source.client.Get(ctx, key, whole); err != nil {
			return nil, c.source.blind(fmt.Errorf("reading %s: %w", each, err))
		}
		saved = append(saved, whole)
	}
	return saved, nil
}

func isOwnedBy(object metav1.Object, owner types.UID) bool {
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == owner {
			return true
		}
	}
	return false
}

// renewed returns the copy of an object to create again.
func renewed(object *unstructured.Unstructured) *unstructured.Unstructured {
	fresh := object.DeepCopy()
	for _, field := range []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
		"managedFields", "selfLink",
	} {
		unstructured.RemoveNestedField(fresh.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(fresh.Object, "status")
	return fresh
}

// writeBackup writes the objects in a file for kubectl create. It never overwrites a file, which may be the backup of
// an earlier attempt.
func writeBackup(name string, saved []*unstructured.Unstructured) error {
	file, err := os.OpenFile(filepath.Clean(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: use another --backup, or remove the file if nothing of it is missing", err)
	}
	if err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	for _, each := range saved {
		fresh := renewed(each)
		if each != saved[0] {
			// The owner gets another UID. BMO sets the owner again.
			fresh.SetOwnerReferences(nil)
		}
		content, failed := yaml.Marshal(fresh.Object)
		if failed == nil {
			_, failed = io.WriteString(file, "---\n"+string(content))
		}
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return nil
}

// discard removes an object without an action of its controller, and waits until it is gone.
func (c *keeping) discard(ctx context.Context, object *unstructured.Unstructured) error {
	uid := object.GetUID()
	what := object.GetKind() + " " + object.GetName()
	patched := object.DeepCopy()
	if object.GetDeletionTimestamp() == nil {
		err := c.source.client.Delete(ctx, patched, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s: %w", what, err)
		}
	}
	err := mergePatch(ctx, c.source.client, patched, fmt.Sprintf(`{"metadata":{"uid":%q,"finalizers":null}}`, uid))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizers of %s: %w", what, err)
	}
	err = wait.PollUntilContextTimeout(ctx, pollEvery, c.timeout, true, func(ctx context.Context) (bool, error) {
		current := object.DeepCopy()
		err := c.source.client.Get(ctx, client.ObjectKeyFromObject(object), current)
		return apierrors.IsNotFound(err) || err == nil && current.GetUID() != uid, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting until %s is gone: %w", what, err)
	}
	return nil
}

// recreate creates the host, then the objects that it owned.
func (c *keeping) recreate(ctx context.Context, saved []*unstructured.Unstructured) error {
	var owner types.UID
	for i, each := range saved {
		fresh := renewed(each)
		if i > 0 {
			references := fresh.GetOwnerReferences()
			for j := range references {
				if references[j].UID == saved[0].GetUID() {
					references[j].UID = owner
				}
			}
			fresh.SetOwnerReferences(references)
		}
		err := c.source.client.Create(ctx, fresh)
		if err != nil && !(i > 0 && apierrors.IsAlreadyExists(err)) {
			return fmt.Errorf("creating %s %s: %w", each.GetKind(), each.GetName(), err)
		}
		if i == 0 {
			owner = fresh.GetUID()
		}
	}
	return nil
}
