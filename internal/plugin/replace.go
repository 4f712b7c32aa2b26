package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// replacement is the remedy for a host that is being deleted: it is replaced, with the objects that it owns. BMO does
// not act on the host: the old object is paused until it is gone, and the new object has the status in its annotation.
func (c *keeping) replacement(ctx context.Context, host *bmov1alpha1.BareMetalHost) (remedy, []pivot.Obstacle, error) {
	saved, err := c.save(ctx, host)
	if err != nil {
		return remedy{}, nil, err
	}
	chosen := remedy{intent: intent{question: fmt.Sprintf(
		"BareMetalHost %s/%s is being deleted. It is saved in %s with %s that it owns, and created anew.",
		host.Namespace, host.Name, c.backup, number(len(saved)-1, "object"))}}
	for _, each := range saved {
		chosen.objects = append(chosen.objects, fmt.Sprintf("%s %s", each.GetKind(), each.GetName()))
	}
	chosen.do = func() error { return c.replace(ctx, host, saved) }
	return chosen, nil, nil
}

// replace replaces a host with the objects that it owns, the host first.
func (c *keeping) replace(
	ctx context.Context, host *bmov1alpha1.BareMetalHost, saved []*unstructured.Unstructured,
) error {
	err := c.act(func() error { return writeBackup(c.backup, saved) },
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

// withBelongings returns the host and all objects that only it owns, the host first. Several hosts may own a Secret.
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
			if seen.ownedOnlyBy(objects[name], map[types.UID]bool{host.UID: true}) {
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
