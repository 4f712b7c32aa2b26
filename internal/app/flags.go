package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	// Registers the JSON log format.
	_ "k8s.io/component-base/logs/json/register"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/flags"

	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3cluster"
)

// Defaults of the client limits. They only limit runaway loops: the API server ensures fairness between clients, and
// the creation of 1000 machines at once must not reach the limits.
const (
	defaultQPS   = 1000
	defaultBurst = 2000
)

// guardImage is the image with keepalived and its guard, without the tag.
const guardImage = "ghcr.io/metal3-pivot/keepalived-guard"

// Flags are the settings of the manager. The flags have the names of Cluster API and CAPM3.
type Flags struct {
	LeaderElect                             bool
	LeaseDuration, RenewDeadline, Retry     time.Duration
	LeaseNamespace                          string
	Namespace, WatchFilter                  string
	ProfilerAddress, HealthAddress          string
	ContentionProfiling                     bool
	SyncPeriod                              time.Duration
	QPS                                     float32
	Burst                                   int
	ClusterCacheQPS                         float32
	ClusterCacheBurst                       int
	ClusterCacheConcurrency                 int
	Concurrency                             controllers.Concurrency
	WebhookPort                             int
	WebhookCertDir, WebhookCert, WebhookKey string
	FastTrack                               bool
	GuardImage                              string
	EndpointInterval                        time.Duration
	KeepMoveLabels                          bool
	ClaimsByHostName                        bool
	SkipCRDMigrationPhases                  []string
	Manager                                 flags.ManagerOptions
	Logs                                    *logs.Options
	Gates                                   featuregate.MutableFeatureGate
}

// NewFlags returns the defaults. As in CAPM3, the environment sets some of them. The lease is in the namespace of the
// pod, or of its service account if the environment does not name it.
func NewFlags(getenv func(string) string) *Flags {
	gates := featuregate.NewFeatureGate()
	utilruntime.Must(logsv1.AddFeatureGates(gates))
	return &Flags{
		LeaseNamespace: getenv("POD_NAMESPACE"),
		FastTrack:      getenv("CAPM3_FAST_TRACK") == "true",
		Logs:           logs.NewOptions(),
		Gates:          gates,
	}
}

// Add registers the flags in a set.
func (f *Flags) Add(set *pflag.FlagSet) {
	logsv1.AddFlags(f.Logs, set)
	flags.AddManagerOptions(set, &f.Manager)
	f.Gates.AddFlag(set)
	f.addLeaderElection(set)
	f.addScope(set)
	f.addLimits(set)
	f.addServers(set)
	f.addIronic(set)
	addIgnored(set)
	set.BoolVar(&f.FastTrack, "fast-track", f.FastTrack,
		"Keep released hosts powered on if cleaning is enabled, for Ironic with fast track. The environment variable "+
			"CAPM3_FAST_TRACK=true has the same effect.")
	set.BoolVar(&f.KeepMoveLabels, "keep-move-labels", true,
		"Set the labels that clusterctl move requires on the CRDs of BMO, and on Secrets without an owner that "+
			"hosts, Metal3Machines and Metal3MachineTemplates reference. Without them, a move omits hosts and Secrets.")
	for _, name := range []string{"enable-bmh-name-based-preallocation", "enableBMHNameBasedPreallocation"} {
		set.BoolVar(&f.ClaimsByHostName, name, false,
			"Name new IPClaims <host>-<pool> instead of <data>-<pool>, so that spec.preAllocations of an IPPool can allocate "+
				"addresses to hosts.")
	}
	set.StringSliceVar(&f.SkipCRDMigrationPhases, "skip-crd-migration-phases", nil,
		"List of CRD migration phases to skip. Valid values are: StorageVersionMigration, CleanupManagedFields.")
}

func (f *Flags) addLeaderElection(set *pflag.FlagSet) {
	set.BoolVar(&f.LeaderElect, "leader-elect", false,
		"Enable leader election, so that only one of several replicas is active.")
	set.DurationVar(&f.LeaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"Time that other replicas wait before they acquire an unrenewed lease.")
	set.DurationVar(&f.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"Time that the leader retries to renew its lease before it exits.")
	set.DurationVar(&f.Retry, "leader-elect-retry-period", 2*time.Second,
		"Time between attempts to acquire or renew the lease.")
}

func (f *Flags) addScope(set *pflag.FlagSet) {
	set.StringVar(&f.Namespace, "namespace", "",
		"Namespace of the objects to reconcile. Empty means all namespaces.")
	set.StringVar(&f.WatchFilter, "watch-filter", "",
		fmt.Sprintf("Value of the label %s of the objects to reconcile. Empty means all objects. "+
			"The filter does not apply to hosts.", clusterv1.WatchLabel))
	set.DurationVar(&f.SyncPeriod, "sync-period", 10*time.Minute,
		"Interval between reconciles of every object without an event.")
}

func (f *Flags) addLimits(set *pflag.FlagSet) {
	set.Float32Var(&f.QPS, "kube-api-qps", defaultQPS, "Requests per second to the API server of this cluster.")
	set.IntVar(&f.Burst, "kube-api-burst", defaultBurst, "Requests to the API server of this cluster in one burst.")
	set.Float32Var(&f.ClusterCacheQPS, "clustercache-client-qps", 20,
		"Requests per second to the API server of each workload cluster.")
	set.IntVar(&f.ClusterCacheBurst, "clustercache-client-burst", 30,
		"Requests to the API server of each workload cluster in one burst.")
	set.IntVar(&f.ClusterCacheConcurrency, "clustercache-concurrency", 100,
		"Number of workload clusters to connect to at the same time.")
	set.IntVar(&f.Concurrency.Metal3Cluster, "metal3cluster-concurrency", 10,
		"Number of Metal3Clusters to reconcile at the same time.")
	set.IntVar(&f.Concurrency.Metal3Data, "metal3data-concurrency", 10,
		"Number of Metal3Data to reconcile at the same time.")
	set.IntVar(&f.Concurrency.Metal3DataTemplate, "metal3datatemplate-concurrency", 10,
		"Number of Metal3DataTemplates, and of Metal3DataClaims, to reconcile at the same time.")
	set.IntVar(&f.Concurrency.Metal3Machine, "metal3machine-concurrency", 32,
		"Number of Metal3Machines to reconcile at the same time.")
	set.IntVar(&f.Concurrency.Metal3MachineTemplate, "metal3machinetemplate-concurrency", 10,
		"Number of Metal3MachineTemplates to reconcile at the same time.")
	set.IntVar(&f.Concurrency.Metal3Remediation, "metal3remediation-concurrency", 10,
		"Number of Metal3Remediations to reconcile at the same time.")
}

func (f *Flags) addIronic(set *pflag.FlagSet) {
	set.StringVar(&f.GuardImage, "keepalived-guard-image", "",
		"Container image with keepalived and its guard for control-plane machines with spec.ironic. Empty means "+
			guardImage+" of the version of the manager.")
	set.DurationVar(&f.EndpointInterval, "ironic-endpoint-interval", metal3cluster.DefaultInterval,
		"Interval between probes of the Ironic endpoint of a Metal3Cluster.")
}

// Check returns an error for a value that no flag type refuses.
func (f *Flags) Check() error {
	if f.EndpointInterval <= 0 {
		return fmt.Errorf("--ironic-endpoint-interval is %s; use a time above zero, such as %s", f.EndpointInterval,
			metal3cluster.DefaultInterval)
	}
	return nil
}

// guardImageOf returns the image of the guard for a version of the manager.
func guardImageOf(version string) string {
	if version == "" {
		// Not built by the Makefile.
		version = "latest"
	}
	// A tag cannot contain the plus sign before build metadata.
	return guardImage + ":" + strings.ReplaceAll(version, "+", "-")
}

func (f *Flags) addServers(set *pflag.FlagSet) {
	set.StringVar(&f.HealthAddress, "health-addr", ":9440", "Address that serves /healthz and /readyz.")
	set.StringVar(&f.ProfilerAddress, "profiler-address", "", "Address that serves pprof, for example localhost:6060.")
	set.BoolVar(&f.ContentionProfiling, "contention-profiling", false, "Profile where goroutines block.")
	set.IntVar(&f.WebhookPort, "webhook-port", 9443, "Port of the webhook server.")
	set.StringVar(&f.WebhookCertDir, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs/",
		"Folder of the certificate of the webhook server.")
	set.StringVar(&f.WebhookCert, "webhook-cert-name", "tls.crt", "File of the certificate in webhook-cert-dir.")
	set.StringVar(&f.WebhookKey, "webhook-key-name", "tls.key", "File of the key in webhook-cert-dir.")
}
