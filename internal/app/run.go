package app

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/cluster-api/controllers/remote"
	"sigs.k8s.io/cluster-api/version"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions;customresourcedefinitions/status,verbs=patch,resourceNames=metal3clusters.infrastructure.cluster.x-k8s.io;metal3clustertemplates.infrastructure.cluster.x-k8s.io;metal3machines.infrastructure.cluster.x-k8s.io;metal3machinetemplates.infrastructure.cluster.x-k8s.io;metal3datas.infrastructure.cluster.x-k8s.io;metal3dataclaims.infrastructure.cluster.x-k8s.io;metal3datatemplates.infrastructure.cluster.x-k8s.io;metal3remediations.infrastructure.cluster.x-k8s.io;metal3remediationtemplates.infrastructure.cluster.x-k8s.io
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters;metal3clustertemplates;metal3machines;metal3machinetemplates;metal3datas;metal3dataclaims;metal3datatemplates;metal3remediations;metal3remediationtemplates,verbs=get;list;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters/status;metal3machines/status;metal3machinetemplates/status;metal3datas/status;metal3dataclaims/status;metal3datatemplates/status;metal3remediations/status;metal3remediationtemplates/status,verbs=patch

// Run runs the manager and blocks until the context ends. It waits until the API server is ready. It returns an error
// if a flag has a wrong value, or if the setup fails.
func Run(ctx context.Context, restConfig *rest.Config, settings *Flags) error {
	if err := settings.Check(); err != nil {
		return err
	}
	if err := untilReady(ctx, restConfig, probeEvery); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	mgr, err := newManager(restConfig, settings)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	clusters, err := newClusterCache(ctx, mgr, settings)
	if err != nil {
		return err
	}
	if err := setupCRDMigration(ctx, mgr, settings); err != nil {
		return err
	}
	err = controllers.SetupWithManager(ctx, mgr, controllers.Options{
		Clusters:    clusters,
		Namespace:   settings.Namespace,
		WatchFilter: settings.WatchFilter,
		FastTrack:   settings.FastTrack,
		SpecProblem: specProblem,
		GuardImage:  cmp.Or(settings.GuardImage, guardImageOf(version.Get().GitVersion)),
		Concurrency: settings.Concurrency,

		EndpointInterval: settings.EndpointInterval,
		KeepMoveLabels:   settings.KeepMoveLabels,
		ClaimsByHostName: settings.ClaimsByHostName,
	})
	if err != nil {
		return err
	}
	if err := webhooks.SetupWithManager(mgr); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	if err := mgr.AddHealthzCheck("webhook", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return fmt.Errorf("adding the health check: %w", err)
	}
	ctrl.Log.Info("Starting manager", "version", version.Get().String())
	return mgr.Start(ctx)
}

func newClusterCache(ctx context.Context, mgr ctrl.Manager, settings *Flags) (clustercache.ClusterCache, error) {
	clusters, err := clustercache.SetupWithManager(ctx, mgr, connections(mgr.GetCache(), settings),
		controller.Options{MaxConcurrentReconciles: settings.ClusterCacheConcurrency})
	if err != nil {
		return nil, fmt.Errorf("creating the ClusterCache: %w", err)
	}
	return clusters, nil
}

// connections returns the settings of the connections to workload clusters. The watch filter does not apply: as in
// CAPM3, the label is on objects of this provider, and need not be on their Cluster.
func connections(secrets client.Reader, settings *Flags) clustercache.Options {
	return clustercache.Options{
		SecretClient:  workload.EmbeddedKubeconfigs{Reader: secrets},
		ClusterFilter: isOurs,
		Cache: clustercache.CacheOptions{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         workload.Cached(),
			Indexes: []clustercache.CacheOptionsIndex{
				clustercache.NodeProviderIDIndex, workload.HostUIDIndex, workload.HostnameIndex,
			},
		},
		Client: clustercache.ClientOptions{
			QPS:       settings.ClusterCacheQPS,
			Burst:     settings.ClusterCacheBurst,
			UserAgent: remote.DefaultClusterAPIUserAgent(name),
		},
	}
}

func isOurs(cluster *clusterv1.Cluster) bool {
	return cluster.Spec.InfrastructureRef.APIGroup == infrav1.GroupVersion.Group &&
		cluster.Spec.InfrastructureRef.Kind == "Metal3Cluster"
}

// setupCRDMigration sets up the migration of objects that are stored in an old version.
func setupCRDMigration(ctx context.Context, mgr ctrl.Manager, settings *Flags) error {
	withStatus := crdmigrator.ByObjectConfig{UseStatusForStorageVersionMigration: true}
	var skip []crdmigrator.Phase
	for _, phase := range settings.SkipCRDMigrationPhases {
		skip = append(skip, crdmigrator.Phase(phase))
	}
	migrator := &crdmigrator.CRDMigrator{
		Client:                 mgr.GetClient(),
		APIReader:              mgr.GetAPIReader(),
		SkipCRDMigrationPhases: skip,
		Config: map[client.Object]crdmigrator.ByObjectConfig{
			&infrav1.Metal3Cluster{}:             withStatus,
			&infrav1.Metal3ClusterTemplate{}:     {},
			&infrav1.Metal3Machine{}:             withStatus,
			&infrav1.Metal3MachineTemplate{}:     {},
			metal3Datas():                        withStatus,
			&infrav1.Metal3DataClaim{}:           withStatus,
			&infrav1.Metal3DataTemplate{}:        withStatus,
			&infrav1.Metal3Remediation{}:         withStatus,
			&infrav1.Metal3RemediationTemplate{}: withStatus,
		},
	}
	if err := migrator.SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 1}); err != nil {
		return fmt.Errorf("setting up the CRD migration: %w", err)
	}
	return nil
}

// metal3Datas returns an object for Metal3Data with the kind Metal3Datas. The migrator derives the name of a CRD from
// the plural of its kind. It takes "data" for a plural, but the plural of this kind is metal3datas.
func metal3Datas() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Datas"},
	}
}

// specProblem returns the admission error for a Metal3Machine, empty if it is valid. It is for objects that bypassed
// the webhooks.
func specProblem(machine *infrav1.Metal3Machine) string {
	findings := rule.MachineSpec(field.NewPath("spec"), &machine.Spec, machine.Namespace)
	if err := findings.Errors.ToAggregate(); err != nil {
		return err.Error()
	}
	return ""
}
