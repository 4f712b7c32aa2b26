package plugin

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// readClasses reads which ClusterClasses a move would pause, and are paused already.
func (c *cluster) readClasses(ctx context.Context, s *scope) (err error) {
	s.pausedClasses, err = c.listPausedClasses(ctx, s.namespace, s.clusters)
	return err
}

// listPausedClasses returns the paused ClusterClasses of a namespace, and those of other namespaces that Clusters use.
// clusterctl pauses both. It does not delete those of other namespaces, and unpauses them in the target only.
func (c *cluster) listPausedClasses(ctx context.Context, namespace string, users []*clusterv1.Cluster,
) ([]client.ObjectKey, error) {
	kind := clusterv1.GroupVersion.WithKind(clusterv1.ClusterClassKind)
	classes, err := c.list(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	for _, key := range externalClasses(namespace, users) {
		class := metav1.PartialObjectMetadata{}
		class.SetGroupVersionKind(kind)
		switch err := c.client.Get(ctx, key, &class); {
		case apierrors.IsNotFound(err):
			// clusterctl names it.
		case c.missing(err) != nil:
			return nil, fmt.Errorf("reading ClusterClass %s: %w", key, err)
		default:
			classes = append(classes, class)
		}
	}
	var paused []client.ObjectKey
	for i := range classes {
		if _, isPaused := classes[i].Annotations[clusterv1.PausedAnnotation]; isPaused {
			paused = append(paused, client.ObjectKeyFromObject(&classes[i]))
		}
	}
	return paused, nil
}

// externalClasses returns the ClusterClasses of other namespaces that Clusters use.
func externalClasses(namespace string, users []*clusterv1.Cluster) []client.ObjectKey {
	var keys []client.ObjectKey
	for _, cluster := range users {
		key := cluster.GetClassKey()
		if key.Name != "" && key.Namespace != namespace && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// classesOf returns the ClusterClasses of the namespace, and those of other namespaces that Clusters use. Without
// Clusters, it returns none.
func classesOf(users []*clusterv1.Cluster, namespace string, classes []client.ObjectKey) []client.ObjectKey {
	external := externalClasses(namespace, users)
	return slices.DeleteFunc(slices.Clone(classes), func(key client.ObjectKey) bool {
		return len(users) == 0 || key.Namespace != namespace && !slices.Contains(external, key)
	})
}

// localClasses returns the names of the paused ClusterClasses of the namespace.
func (s *scope) localClasses() []string {
	var names []string
	for _, key := range s.pausedClasses {
		if key.Namespace == s.namespace {
			names = append(names, key.Name)
		}
	}
	return names
}

// classObstacles returns obstacles for the paused ClusterClasses of other namespaces: clusterctl refuses.
func (s departure) classObstacles() []pivot.Obstacle {
	var found []pivot.Obstacle
	for _, key := range s.pausedClasses {
		if key.Namespace != s.namespace {
			found = append(found, pivot.AboutNamed(clusterv1.ClusterClassKind, key.Namespace, key.Name).Blocks(pivot.CodePaused,
				"a move of a namespace that uses it is under way, or has left it paused; wait for it, or remove its annotation "+
					clusterv1.PausedAnnotation, "ClusterClass %s is paused", key))
		}
	}
	return found
}

// className returns the name of a ClusterClass, with its namespace if this is another one.
func className(key client.ObjectKey, namespace string) string {
	if key.Namespace == namespace {
		return key.Name
	}
	return key.String()
}

// unpauseClasses unpauses ClusterClasses of one side.
func (c *recovery) unpauseClasses(ctx context.Context, at *cluster, classes []client.ObjectKey) error {
	for _, key := range classes {
		class := &clusterv1.ClusterClass{}
		class.Namespace, class.Name = key.Namespace, key.Name
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, clusterv1.PausedAnnotation)
		err := c.act(func() error { return mergePatch(ctx, at.client, class, patch) },
			"Unpaused ClusterClass %s in the %s", className(key, c.where.namespace), at.side)
		if err != nil {
			return err
		}
	}
	return nil
}

// unpauseKept unpauses the ClusterClasses that a move has left in the source: clusterctl keeps a ClusterClass that
// Clusters of other namespaces use.
func (c *recovery) unpauseKept(ctx context.Context, moved []*clusterv1.Cluster) error {
	kept, err := c.source.listPausedClasses(ctx, c.where.namespace, moved)
	if err != nil {
		return c.source.blind(err)
	}
	return c.unpauseClasses(ctx, c.source, kept)
}
