package manifests_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
)

const namespace = "capm3-system"

func manager(t *testing.T, objects []unstructured.Unstructured) (*appsv1.Deployment, corev1.Container) {
	t.Helper()
	deployment := only[appsv1.Deployment](t, objects, "Deployment")
	containers := deployment.Spec.Template.Spec.Containers
	if len(containers) != 1 || containers[0].Name != "manager" {
		t.Fatalf("containers are %v, want one named manager, which clusterctl requires", containers)
	}
	return deployment, containers[0]
}

func TestEverythingIsInOneNamespaceAndLabelled(t *testing.T) {
	objects := components(t)
	got := only[corev1.Namespace](t, objects, "Namespace")
	if got.Name != namespace || got.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace is %s with labels %v, want %s with restricted pods", got.Name, got.Labels, namespace)
	}
	global := []string{
		"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "MutatingWebhookConfiguration", "Namespace",
		"ValidatingWebhookConfiguration",
	}
	for _, object := range objects {
		want := namespace
		if slices.Contains(global, object.GetKind()) {
			want = ""
		}
		if object.GetNamespace() != want {
			t.Errorf("%s is in namespace %q, want %q", title(object), object.GetNamespace(), want)
		}
		if label := object.GetLabels()["cluster.x-k8s.io/provider"]; label != "infrastructure-metal3" {
			t.Errorf("%s has the label cluster.x-k8s.io/provider %q, want infrastructure-metal3", title(object), label)
		}
		if object.GetKind() != "CustomResourceDefinition" && !strings.HasPrefix(object.GetName(), "capm3-") {
			t.Errorf("%s: the name does not start with capm3-", title(object))
		}
	}
}

// TestManagerPodIsRestricted requires the Pod Security Standard "restricted" and further restrictions.
func TestManagerPodIsRestricted(t *testing.T) {
	deployment, container := manager(t, components(t))
	pod := deployment.Spec.Template.Spec

	wantPod := &corev1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		FSGroup:        ptr.To[int64](65532),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if diff := cmp.Diff(wantPod, pod.SecurityContext); diff != "" {
		t.Errorf("security of the pod: -want, +got:\n%s", diff)
	}
	wantContainer := &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Privileged:               ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		RunAsNonRoot:             ptr.To(true),
		RunAsUser:                ptr.To[int64](65532),
		RunAsGroup:               ptr.To[int64](65532),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if diff := cmp.Diff(wantContainer, container.SecurityContext); diff != "" {
		t.Errorf("security of the container: -want, +got:\n%s", diff)
	}
}

func TestManagerPodSharesNothingWithItsNode(t *testing.T) {
	deployment, container := manager(t, components(t))
	pod := deployment.Spec.Template.Spec
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the pod shares a namespace with its node")
	}
	for _, port := range container.Ports {
		if port.HostPort != 0 {
			t.Errorf("port %s is a port of the node", port.Name)
		}
	}
	for _, volume := range pod.Volumes {
		if volume.Secret == nil {
			t.Errorf("volume %s is not a Secret", volume.Name)
		}
	}
	for _, mount := range container.VolumeMounts {
		if !mount.ReadOnly {
			t.Errorf("volume %s can be written", mount.Name)
		}
	}
	if len(pod.InitContainers) != 0 || len(pod.EphemeralContainers) != 0 {
		t.Error("the pod has containers that this test does not check")
	}
}

func TestManagerArgumentsCanBeSet(t *testing.T) {
	_, container := manager(t, components(t))
	if diff := cmp.Diff([]string{"/manager"}, container.Command); diff != "" {
		t.Errorf("command: -want, +got:\n%s", diff)
	}
	if !slices.Contains(container.Args, "--leader-elect") {
		t.Error("--leader-elect is missing")
	}
	for _, argument := range container.Args {
		if argument != "--leader-elect" && !strings.Contains(argument, "=${") {
			t.Errorf("argument %s has no variable", argument)
		}
	}
}

// TestManagerHasTheVariablesOfCAPM3 requires the variables that CAPM3 v1.14 has, and TLS_MIN_VERSION, which v1.12 has, so
// that an upgrade with the same configuration of clusterctl keeps the settings.
func TestManagerHasTheVariablesOfCAPM3(t *testing.T) {
	_, container := manager(t, components(t))
	for _, want := range []string{
		"--diagnostics-address=${CAPM3_DIAGNOSTICS_ADDRESS:=:8443}",
		"--insecure-diagnostics=${CAPM3_INSECURE_DIAGNOSTICS:=false}",
		"--tls-min-version=${TLS_MIN_VERSION:=VersionTLS13}",
		"--enable-bmh-name-based-preallocation=${ENABLE_BMH_NAME_BASED_PREALLOCATION:=false}",
		"--fast-track=${CAPM3_FAST_TRACK:=false}",
	} {
		if !slices.Contains(container.Args, want) {
			t.Errorf("argument %s is missing", want)
		}
	}
}

// TestManagerEndsBeforeItIsKilled requires that a manager that does not end in time releases its lease.
func TestManagerEndsBeforeItIsKilled(t *testing.T) {
	deployment, _ := manager(t, components(t))
	seconds := ptr.Deref(deployment.Spec.Template.Spec.TerminationGracePeriodSeconds, 0)
	if limit := time.Duration(seconds) * time.Second; app.StopLimit >= limit {
		t.Errorf("the manager ends after %s, and the kubelet kills it after %s", app.StopLimit, limit)
	}
}

// TestManagerHasItsPodInTheEnvironment requires the variables with which Cluster API detects a manager in its own cluster.
func TestManagerHasItsPodInTheEnvironment(t *testing.T) {
	_, container := manager(t, components(t))
	got := map[string]string{}
	for _, variable := range container.Env {
		if variable.ValueFrom != nil && variable.ValueFrom.FieldRef != nil {
			got[variable.Name] = variable.ValueFrom.FieldRef.FieldPath
		}
	}
	want := map[string]string{
		"POD_NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name", "POD_UID": "metadata.uid",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment from the pod: -want, +got:\n%s", diff)
	}
}

func TestManagerIsProbed(t *testing.T) {
	_, container := manager(t, components(t))
	got := map[string]int32{}
	for _, port := range container.Ports {
		got[port.Name] = port.ContainerPort
	}
	want := map[string]int32{"webhook-server": 9443, "metrics": 8443, "healthz": 9440}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports: -want, +got:\n%s", diff)
	}
	// The kubelet does not restart a manager that waits for the API server in this time.
	startup := container.StartupProbe
	checkProbe(t, startup, "/healthz")
	if startup != nil && startup.PeriodSeconds*startup.FailureThreshold < 30*60 {
		t.Errorf("the startup probe has %d tries in %d s intervals", startup.FailureThreshold, startup.PeriodSeconds)
	}
	checkProbe(t, container.ReadinessProbe, "/readyz")
	checkProbe(t, container.LivenessProbe, "/healthz")
}

func TestManagerStaysScheduled(t *testing.T) {
	deployment, container := manager(t, components(t))
	pod := deployment.Spec.Template.Spec
	if ptr.Deref(pod.TerminationGracePeriodSeconds, 0) != 10 || pod.PriorityClassName != "system-cluster-critical" {
		t.Errorf("the pod ends after %v s with priority %q", pod.TerminationGracePeriodSeconds, pod.PriorityClassName)
	}
	want := []corev1.Toleration{
		{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node-role.kubernetes.io/master", Effect: corev1.TaintEffectNoSchedule},
	}
	if diff := cmp.Diff(want, pod.Tolerations); diff != "" {
		t.Errorf("tolerations: -want, +got:\n%s", diff)
	}
	requests, limits := container.Resources.Requests, container.Resources.Limits
	if requests.Memory().IsZero() || requests.Cpu().IsZero() || limits.Memory().IsZero() {
		t.Errorf("resources are %v, want requests of both and a limit of memory", container.Resources)
	}
}

func checkProbe(t *testing.T, probe *corev1.Probe, path string) {
	t.Helper()
	if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != "healthz" {
		t.Errorf("probe is %v, want %s on port healthz", probe, path)
	}
}

func TestInstallsWithoutAnyVariable(t *testing.T) {
	made := newRelease(t)
	provider := "metal3:" + made.version
	objects := split(t, made.clusterctl(t, nil, "generate", "provider", "--infrastructure", provider))
	scheme := newScheme(t)
	for _, object := range objects {
		decodeKnown(t, scheme, object)
	}

	_, container := manager(t, objects)
	want := []string{
		"--leader-elect", "--diagnostics-address=:8443", "--insecure-diagnostics=false",
		"--tls-min-version=VersionTLS13", "--enable-bmh-name-based-preallocation=false", "--feature-gates=AllAlpha=false",
		"--fast-track=false",
	}
	if diff := cmp.Diff(want, container.Args); diff != "" {
		t.Errorf("arguments: -want, +got:\n%s", diff)
	}
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	app.NewFlags(func(string) string { return "" }).Add(set)
	if err := set.Parse(container.Args); err != nil {
		t.Errorf("the manager refuses its arguments: %v", err)
	}
	if image := "ghcr.io/metal3-pivot/cluster-api-provider-metal3:" + made.version; container.Image != image {
		t.Errorf("image is %s, want %s", container.Image, image)
	}
}
