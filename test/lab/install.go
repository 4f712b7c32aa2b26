package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

const (
	// definitionsLimit is the time limit until new kinds are served.
	definitionsLimit = 5 * time.Minute

	// deploymentsLimit is the time limit until Deployments are available.
	deploymentsLimit = 5 * time.Minute

	// initLimit is the time limit of clusterctl init, which writes some hundred objects.
	initLimit = 10 * time.Minute

	// writers is the number of parallel writes.
	writers = 8
)

// Install makes a cluster a management cluster: it installs cert-manager, BMO, Cluster API, the IP address manager of
// Metal3 and this provider. The endpoint is the Ironic of BMO. It blocks until all Deployments are available.
func (l *Lab) Install(ctx context.Context, cluster *Cluster, endpoint ironicapi.Endpoint) error {
	if err := l.InstallPrerequisites(ctx, cluster, endpoint); err != nil {
		return err
	}
	return l.installProvider(ctx, cluster)
}

// InstallPrerequisites installs the prerequisites of clusterctl init.
func (l *Lab) InstallPrerequisites(ctx context.Context, cluster *Cluster, endpoint ironicapi.Endpoint) error {
	if err := l.installCertManager(ctx, cluster); err != nil {
		return err
	}
	return l.installOperator(ctx, cluster, endpoint)
}

// installOperator installs BMO, and does not wait for it.
func (l *Lab) installOperator(ctx context.Context, cluster *Cluster, endpoint ironicapi.Endpoint) error {
	module, err := l.source().BaremetalOperator(ctx)
	if err != nil {
		return err
	}
	objects, err := operatorObjects(module, operatorImage, endpoint)
	if err != nil {
		return err
	}
	return create(ctx, cluster.Client, append(objects, build.Namespace(Namespace))...)
}

func (l *Lab) installProvider(ctx context.Context, cluster *Cluster) error {
	l.options.Progress("clusterctl init on cluster %s", cluster.Name)
	limited, cancel := context.WithTimeout(ctx, initLimit)
	defer cancel()
	if _, err := cluster.Clusterctl().Run(limited, "init", "--infrastructure=metal3", "--ipam=metal3"); err != nil {
		return err
	}
	return l.WaitForDeployments(ctx, cluster)
}

// installDefinitions installs CRDs and waits until their kinds are served.
func (l *Lab) installDefinitions(
	ctx context.Context, cluster *Cluster, definitions []*apiextensionsv1.CustomResourceDefinition,
) error {
	work, writing := errgroup.WithContext(ctx)
	work.SetLimit(writers)
	for _, definition := range definitions {
		work.Go(func() error { return create(writing, cluster.Client, definition.DeepCopy()) })
	}
	if err := work.Wait(); err != nil {
		return err
	}
	what := fmt.Sprintf("%d kinds are served by cluster %s", len(definitions), cluster.Name)
	return l.options.Progress.WaitFor(ctx, what, definitionsLimit, func(ctx context.Context) error {
		for _, definition := range definitions {
			var found apiextensionsv1.CustomResourceDefinition
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(definition), &found); err != nil {
				return err
			}
			if !established(&found) {
				return fmt.Errorf("%s is not established", found.Name)
			}
		}
		return nil
	})
}

func established(definition *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// WaitForDeployments waits until all existing Deployments have their replicas.
func (l *Lab) WaitForDeployments(ctx context.Context, cluster *Cluster, options ...client.ListOption) error {
	what := "all Deployments of cluster " + cluster.Name + " are available"
	return l.options.Progress.WaitFor(ctx, what, deploymentsLimit, func(ctx context.Context) error {
		var found appsv1.DeploymentList
		if err := cluster.Client.List(ctx, &found, options...); err != nil {
			return err
		}
		var missing []error
		for _, deployment := range found.Items {
			if !deployed(&deployment) {
				missing = append(missing, fmt.Errorf("%s/%s has %d of %d replicas available", deployment.Namespace,
					deployment.Name, deployment.Status.AvailableReplicas, deployment.Status.Replicas))
			}
		}
		return errors.Join(missing...)
	})
}

// deployed returns true if a Deployment has completed the rollout of its current spec.
func deployed(deployment *appsv1.Deployment) bool {
	wanted := int32(1)
	if deployment.Spec.Replicas != nil {
		wanted = *deployment.Spec.Replicas
	}
	status := deployment.Status
	return status.ObservedGeneration >= deployment.Generation &&
		status.UpdatedReplicas == wanted && status.AvailableReplicas == wanted && status.Replicas == wanted
}

// WaitForNodes waits until a cluster has a number of nodes and all of them are ready.
func (l *Lab) WaitForNodes(ctx context.Context, cluster *Cluster, count int, limit time.Duration) error {
	what := fmt.Sprintf("%d nodes of cluster %s are ready", count, cluster.Name)
	return l.options.Progress.WaitFor(ctx, what, limit, func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := cluster.Client.List(ctx, &nodes); err != nil {
			return err
		}
		ready := 0
		for _, node := range nodes.Items {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready != count || len(nodes.Items) != count {
			return fmt.Errorf("%d of %d nodes are ready, want %d", ready, len(nodes.Items), count)
		}
		return nil
	})
}

// installManagement creates the management cluster of the lab with Ironic, which starts during the other installations.
func (l *Lab) installManagement(ctx context.Context) error {
	if err := l.installCertManager(ctx, l.management); err != nil {
		return err
	}
	if err := l.installIronic(ctx); err != nil {
		return err
	}
	if err := l.installOperator(ctx, l.management, l.Ironic()); err != nil {
		return err
	}
	return l.installProvider(ctx, l.management)
}

// source returns the source of CRDs and of the clusterctl repository.
func (l *Lab) source() components.Source {
	return components.Source{Root: l.checkout, Progress: &lines{progress: l.options.Progress}}
}

func (l *Lab) writeRepository(ctx context.Context) error {
	var err error
	l.clusterctlConfig, err = l.source().WriteRepository(ctx, components.Repository{
		Folder: filepath.Join(l.folder, "repository"), Release: l.options.Release, AddressManager: true, PatientLeases: true,
	})
	if err != nil {
		return fmt.Errorf("writing the clusterctl repository: %w", err)
	}
	return nil
}
