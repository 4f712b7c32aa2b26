package app_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsv1 "k8s.io/component-base/logs/api/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
)

func parse(t *testing.T, environment map[string]string, args ...string) (*app.Flags, *pflag.FlagSet) {
	t.Helper()
	settings := app.NewFlags(func(name string) string { return environment[name] })
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	settings.Add(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return settings, set
}

func TestDefaults(t *testing.T) {
	_, set := parse(t, nil)
	want := map[string]string{
		"leader-elect":                      "false",
		"leader-elect-lease-duration":       "15s",
		"leader-elect-renew-deadline":       "10s",
		"leader-elect-retry-period":         "2s",
		"namespace":                         "",
		"watch-filter":                      "",
		"sync-period":                       "10m0s",
		"kube-api-qps":                      "1000",
		"kube-api-burst":                    "2000",
		"clustercache-client-qps":           "20",
		"clustercache-client-burst":         "30",
		"clustercache-concurrency":          "100",
		"metal3cluster-concurrency":         "10",
		"metal3machine-concurrency":         "32",
		"metal3machinetemplate-concurrency": "10",
		"metal3remediation-concurrency":     "10",
		"metal3data-concurrency":            "10",
		"metal3datatemplate-concurrency":    "10",
		"webhook-port":                      "9443",
		"webhook-cert-dir":                  "/tmp/k8s-webhook-server/serving-certs/",
		"webhook-cert-name":                 "tls.crt",
		"webhook-key-name":                  "tls.key",
		"health-addr":                       ":9440",
		"profiler-address":                  "",
		"contention-profiling":              "false",
		"diagnostics-address":               ":8443",
		"insecure-diagnostics":              "false",
		"tls-min-version":                   "VersionTLS12",
		"tls-cipher-suites":                 "[]",
		"skip-crd-migration-phases":         "[]",
		"fast-track":                        "false",
		"keepalived-guard-image":            "",
		"ironic-endpoint-interval":          "1s",
		"keep-move-labels":                  "true",
		"logging-format":                    "text",
		"v":                                 "0",
	}
	got := map[string]string{}
	for name := range want {
		if flag := set.Lookup(name); flag != nil {
			got[name] = flag.DefValue
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	set.VisitAll(func(flag *pflag.Flag) {
		if flag.Usage == "" {
			t.Errorf("--%s has no help text", flag.Name)
		}
	})
}

func TestFlagsReachTheirSettings(t *testing.T) {
	settings, _ := parse(t, nil, "--leader-elect", "--namespace=metal3", "--watch-filter=mine", "--sync-period=1h",
		"--leader-elect-retry-period=3s", "--kube-api-qps=7.5", "--kube-api-burst=8", "--clustercache-client-qps=9",
		"--clustercache-client-burst=10", "--clustercache-concurrency=11", "--metal3cluster-concurrency=12",
		"--metal3machine-concurrency=13", "--metal3machinetemplate-concurrency=14", "--webhook-port=15", "--fast-track",
		"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields", "--health_addr=:16",
		"--keepalived-guard-image=registry/guard:17", "--ironic-endpoint-interval=18s",
		"--keep-move-labels=false", "--metal3data-concurrency=19", "--metal3datatemplate-concurrency=20",
		"--metal3remediation-concurrency=21",
		"--enable-bmh-name-based-preallocation")
	type picked struct {
		LeaderElect, FastTrack         bool
		Namespace, WatchFilter, Health string
		SyncPeriod, Retry              time.Duration
		QPS, ClusterCacheQPS           float32
		Numbers                        []int
		Concurrency                    controllers.Concurrency
		Skipped                        []string
		GuardImage                     string
		EndpointInterval               time.Duration
		KeepMoveLabels, ByHostName     bool
	}
	want := picked{
		LeaderElect: true, FastTrack: true, Namespace: "metal3", WatchFilter: "mine", Health: ":16",
		SyncPeriod: time.Hour, Retry: 3 * time.Second, QPS: 7.5, ClusterCacheQPS: 9, Numbers: []int{8, 10, 11, 15},
		Concurrency: controllers.Concurrency{
			Metal3Cluster: 12, Metal3Machine: 13, Metal3MachineTemplate: 14, Metal3Data: 19, Metal3DataTemplate: 20,
			Metal3Remediation: 21,
		},
		Skipped:    []string{"StorageVersionMigration", "CleanupManagedFields"},
		GuardImage: "registry/guard:17", EndpointInterval: 18 * time.Second, ByHostName: true,
	}
	got := picked{
		settings.LeaderElect, settings.FastTrack, settings.Namespace, settings.WatchFilter, settings.HealthAddress,
		settings.SyncPeriod, settings.Retry, settings.QPS, settings.ClusterCacheQPS,
		[]int{settings.Burst, settings.ClusterCacheBurst, settings.ClusterCacheConcurrency, settings.WebhookPort},
		settings.Concurrency, settings.SkipCRDMigrationPhases,
		settings.GuardImage, settings.EndpointInterval, settings.KeepMoveLabels, settings.ClaimsByHostName,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	for value, want := range map[string]string{
		"1s": "<nil>", "0s": "--ironic-endpoint-interval is 0s; use a time above zero, such as 1s",
		"-1s": "--ironic-endpoint-interval is -1s; use a time above zero, such as 1s",
	} {
		settings, _ := parse(t, nil, "--ironic-endpoint-interval="+value)
		if err := settings.Check(); fmt.Sprint(err) != want {
			t.Errorf("%s: got %v, want %q", value, err, want)
		}
	}
}

// TestAlphaOptionsOfLogs requires the feature gate that the flags of the logs name.
func TestAlphaOptionsOfLogs(t *testing.T) {
	for gate, want := range map[string]bool{"AllAlpha=false": false, "AllAlpha=false,LoggingAlphaOptions=true": true} {
		settings, _ := parse(t, nil, "--feature-gates="+gate, "--logging-format=json", "--log-json-split-stream")
		if problems := logsv1.Validate(settings.Logs, settings.Gates, nil); (len(problems) == 0) != want {
			t.Errorf("%s: got %v, want accepted %t", gate, problems, want)
		}
	}
}

func TestFastTrack(t *testing.T) {
	cases := map[string]struct {
		reason string
		value  string
		args   []string
		want   bool
	}{
		"Nothing": {reason: "off by default"},
		"True":    {reason: "CAPM3 reads the environment", value: "true", want: true},
		"False":   {reason: "off", value: "false"},
		"Other":   {reason: "only true enables it, as in CAPM3", value: "yes"},
		"Flag":    {reason: "the environment is optional", args: []string{"--fast-track"}, want: true},
		"Both":    {reason: "the flag has precedence", value: "true", args: []string{"--fast-track=false"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			settings, _ := parse(t, map[string]string{"CAPM3_FAST_TRACK": tc.value}, tc.args...)
			if settings.FastTrack != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, settings.FastTrack, tc.want)
			}
		})
	}
}
