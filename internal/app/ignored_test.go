package app_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
)

// TestFlagsOfCAPM3 parses all flags of CAPM3 v1.8 to v1.14.
func TestFlagsOfCAPM3(t *testing.T) {
	_, set := parse(t, nil,
		"--leader-elect", "--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s",
		"--leader-elect-retry-period=2s", "--namespace=", "--watch-filter=", "--sync-period=10m",
		"--clustercache-client-qps=20", "--clustercache-client-burst=30", "--webhook-port=9443",
		"--webhook-cert-dir=/tmp/k8s-webhook-server/serving-certs/", "--health-addr=:9440", "--kube-api-qps=20",
		"--kube-api-burst=30", "--diagnostics-address=:8443", "--insecure-diagnostics=false",
		"--tls-min-version=VersionTLS13", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256", "--skip-crd-migration-phases=",
		"--logging-format=text", "--log-flush-frequency=5s", "--v=0", "--vmodule=",
		"--metal3machine-concurrency=10", "--metal3cluster-concurrency=10", "--metal3machinetemplate-concurrency=10",
		"--metal3datatemplate-concurrency=10", "--metal3data-concurrency=10", "--metal3labelsync-concurrency=10",
		"--metal3remediation-concurrency=10", "--enable-bmh-name-based-preallocation", "--enableBMHNameBasedPreallocation=true",
	)
	want := []string{
		"Ignoring --metal3labelsync-concurrency: the workers of --metal3machine-concurrency copy the labels. Remove the flag.",
	}
	if diff := cmp.Diff(want, app.Warnings(set)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNoWarningsByDefault(t *testing.T) {
	_, set := parse(t, nil)
	if warnings := app.Warnings(set); warnings != nil {
		t.Errorf("got %q", warnings)
	}
}
