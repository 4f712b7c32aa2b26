package manifests_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// The webhooks for a kind of BMO.
const (
	pauseWebhook   = "pause.baremetalhost.metal3.io"
	arrivalWebhook = "arrival.baremetalhost.metal3.io"
	againWebhook   = "again.baremetalhost.metal3.io"
)

// entry has the common fields of the two kinds of webhooks.
type entry struct {
	name          string
	client        admissionregistrationv1.WebhookClientConfig
	rules         []admissionregistrationv1.RuleWithOperations
	failurePolicy *admissionregistrationv1.FailurePolicyType
	matchPolicy   *admissionregistrationv1.MatchPolicyType
	sideEffects   *admissionregistrationv1.SideEffectClass
	versions      []string
}

func entries(t *testing.T, objects []unstructured.Unstructured) (mutating, validating []entry) {
	t.Helper()
	mutation := only[admissionregistrationv1.MutatingWebhookConfiguration](t, objects,
		"MutatingWebhookConfiguration")
	for _, w := range mutation.Webhooks {
		mutating = append(mutating, entry{w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects,
			w.AdmissionReviewVersions})
	}
	validation := only[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects,
		"ValidatingWebhookConfiguration")
	for _, w := range validation.Webhooks {
		validating = append(validating, entry{w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects,
			w.AdmissionReviewVersions})
	}
	for _, annotations := range []map[string]string{mutation.Annotations, validation.Annotations} {
		if annotations[injectAnnotation] != certificate {
			t.Errorf("annotation %s is %q, want %q", injectAnnotation, annotations[injectAnnotation], certificate)
		}
	}
	return mutating, validating
}

func TestWebhooksCoverAllKinds(t *testing.T) {
	_, validating := entries(t, components(t))
	got := map[string]bool{}
	for _, webhook := range validating {
		for _, rule := range webhook.rules {
			for _, resource := range rule.Resources {
				got[resource] = true
			}
		}
	}
	want := []string{
		"baremetalhosts", "metal3clusters", "metal3clustertemplates", "metal3dataclaims", "metal3datas", "metal3datatemplates",
		"metal3machines", "metal3machinetemplates", "metal3remediations", "metal3remediationtemplates",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("validated resources: -want, +got:\n%s", diff)
	}
}

func TestWebhooksHaveEqualSettings(t *testing.T) {
	type call struct {
		Service, Namespace string
		FailurePolicy      admissionregistrationv1.FailurePolicyType
		MatchPolicy        admissionregistrationv1.MatchPolicyType
		SideEffects        admissionregistrationv1.SideEffectClass
		Versions           []string
	}
	want := call{
		Service: "capm3-webhook-service", Namespace: namespace,
		FailurePolicy: admissionregistrationv1.Fail, MatchPolicy: admissionregistrationv1.Equivalent,
		SideEffects: admissionregistrationv1.SideEffectClassNone, Versions: []string{"v1"},
	}
	mutating, validating := entries(t, components(t))
	for _, webhook := range slices.Concat(mutating, validating) {
		service := ptr.Deref(webhook.client.Service, admissionregistrationv1.ServiceReference{})
		got := call{
			Service: service.Name, Namespace: service.Namespace,
			FailurePolicy: ptr.Deref(webhook.failurePolicy, ""), MatchPolicy: ptr.Deref(webhook.matchPolicy, ""),
			SideEffects: ptr.Deref(webhook.sideEffects, ""), Versions: webhook.versions,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", webhook.name, diff)
		}
	}
}

func TestWebhooksHaveTheirOwnPathAndVersion(t *testing.T) {
	mutating, validating := entries(t, components(t))
	paths := map[string]string{}
	for _, webhook := range slices.Concat(mutating, validating) {
		path := ptr.Deref(webhook.client.Service.Path, "")
		if other, taken := paths[path]; taken {
			t.Errorf("%s and %s have the path %s", webhook.name, other, path)
		}
		paths[path] = webhook.name
		if slices.Contains([]string{pauseWebhook, arrivalWebhook, againWebhook}, webhook.name) {
			continue
		}
		for _, rule := range webhook.rules {
			if !slices.Equal(rule.APIGroups, []string{group}) || !slices.Equal(rule.APIVersions, []string{"v1beta2"}) {
				t.Errorf("%s: groups %v, versions %v", webhook.name, rule.APIGroups, rule.APIVersions)
			}
		}
	}
}

// TestHostsRequireTheManagerOnlyToMove requires that the webhooks for hosts are called only during a move. Otherwise BMO
// could not write while the manager is unavailable.
func TestHostsRequireTheManagerOnlyToMove(t *testing.T) {
	configuration := only[admissionregistrationv1.MutatingWebhookConfiguration](t, components(t),
		"MutatingWebhookConfiguration")
	var got []admissionregistrationv1.MutatingWebhook
	for _, webhook := range configuration.Webhooks {
		if webhook.Name == pauseWebhook || webhook.Name == arrivalWebhook {
			webhook.ClientConfig = admissionregistrationv1.WebhookClientConfig{}
			got = append(got, webhook)
		}
	}
	want := []admissionregistrationv1.MutatingWebhook{
		forHosts(pauseWebhook, admissionregistrationv1.Update,
			admissionregistrationv1.MatchCondition{
				Name: "is-deleted-by-a-move",
				Expression: "has(object.metadata.annotations) && " +
					"'clusterctl.cluster.x-k8s.io/delete-for-move' in object.metadata.annotations",
			},
			admissionregistrationv1.MatchCondition{
				Name: "is-not-paused",
				Expression: "has(object.metadata.annotations) && " +
					"!('baremetalhost.metal3.io/paused' in object.metadata.annotations)",
			}),
		forHosts(arrivalWebhook, admissionregistrationv1.Create,
			admissionregistrationv1.MatchCondition{
				Name: "was-known-to-a-host-operator",
				Expression: "has(object.metadata.finalizers) && " +
					"'baremetalhost.metal3.io' in object.metadata.finalizers",
			},
			admissionregistrationv1.MatchCondition{
				Name: "has-an-image", Expression: "has(object.spec.image) || has(object.spec.customDeploy)",
			},
			admissionregistrationv1.MatchCondition{
				Name: "is-not-paused-and-brings-no-status",
				Expression: "!has(object.metadata.annotations) || " +
					"!('baremetalhost.metal3.io/paused' in object.metadata.annotations) && " +
					"!('baremetalhost.metal3.io/status' in object.metadata.annotations)",
			}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestHostsAreNotCreatedAgain requires that the webhook for creations is not called for hosts that clusterctl moves
// or that come from a backup.
func TestHostsAreNotCreatedAgain(t *testing.T) {
	configuration := only[admissionregistrationv1.ValidatingWebhookConfiguration](t, components(t),
		"ValidatingWebhookConfiguration")
	shape := forHosts(againWebhook, admissionregistrationv1.Create)
	want := admissionregistrationv1.ValidatingWebhook{
		Name: shape.Name, AdmissionReviewVersions: shape.AdmissionReviewVersions, FailurePolicy: shape.FailurePolicy,
		MatchPolicy: shape.MatchPolicy, SideEffects: shape.SideEffects, TimeoutSeconds: shape.TimeoutSeconds,
		Rules: shape.Rules,
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{
				Name: "was-not-known-to-a-host-operator",
				Expression: "!has(object.metadata.finalizers) || " +
					"!('baremetalhost.metal3.io' in object.metadata.finalizers)",
			}, {
				Name: "does-not-arrive",
				Expression: "!has(object.metadata.annotations) || " +
					"!('infrastructure.cluster.x-k8s.io/move-epoch' in object.metadata.annotations) && " +
					"!('baremetalhost.metal3.io/status' in object.metadata.annotations)",
			},
		},
	}
	i := slices.IndexFunc(configuration.Webhooks, func(webhook admissionregistrationv1.ValidatingWebhook) bool {
		return webhook.Name == againWebhook
	})
	if i < 0 {
		t.Fatalf("%s is missing", againWebhook)
	}
	got := configuration.Webhooks[i]
	got.ClientConfig = admissionregistrationv1.WebhookClientConfig{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// forHosts returns the expected webhook for one operation on hosts.
func forHosts(name string, operation admissionregistrationv1.OperationType,
	conditions ...admissionregistrationv1.MatchCondition,
) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name:                    name,
		AdmissionReviewVersions: []string{"v1"},
		FailurePolicy:           ptr.To(admissionregistrationv1.Fail),
		MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
		ReinvocationPolicy:      ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          ptr.To[int32](10),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{operation},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"metal3.io"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"baremetalhosts"},
				Scope: ptr.To(admissionregistrationv1.NamespacedScope),
			},
		}},
		MatchConditions: conditions,
	}
}

const webhookService = "capm3-webhook-service"

// TestServicesSelectTheManager compares the selectors and ports of the Services with the pod.
func TestServicesSelectTheManager(t *testing.T) {
	objects := components(t)
	deployment, container := manager(t, objects)
	for name, want := range map[string]corev1.ServicePort{
		webhookService:          {Port: 443, TargetPort: intstr.FromString("webhook-server")},
		"capm3-metrics-service": {Name: "metrics", Port: 8443, TargetPort: intstr.FromString("metrics")},
	} {
		service := find[corev1.Service](t, objects, "Service", name)
		pod := deployment.Spec.Template.Labels
		if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod)) {
			t.Errorf("Service %s selects %v, the pod has %v", name, service.Spec.Selector, pod)
		}
		if diff := cmp.Diff([]corev1.ServicePort{want}, service.Spec.Ports); diff != "" {
			t.Errorf("ports of Service %s: -want, +got:\n%s", name, diff)
		}
		named := func(port corev1.ContainerPort) bool { return port.Name == want.TargetPort.StrVal }
		if !slices.ContainsFunc(container.Ports, named) {
			t.Errorf("Service %s has target port %s, which the container does not have", name, want.TargetPort.StrVal)
		}
	}
}

func TestManagerServesTheCertificate(t *testing.T) {
	objects := components(t)
	deployment, container := manager(t, objects)
	found := ofKind(objects, "Certificate")
	if len(found) != 1 || found[0].GetNamespace()+"/"+found[0].GetName() != certificate {
		t.Fatalf("certificates are %v, want one, %s", found, certificate)
	}
	secret, _, _ := unstructured.NestedString(found[0].Object, "spec", "secretName")
	wantVolumes := []corev1.Volume{{
		Name: "cert",
		VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To[int32](0o440)},
		},
	}}
	if diff := cmp.Diff(wantVolumes, deployment.Spec.Template.Spec.Volumes); diff != "" {
		t.Errorf("volumes: -want, +got:\n%s", diff)
	}
	wantMounts := []corev1.VolumeMount{{
		Name: "cert", MountPath: "/tmp/k8s-webhook-server/serving-certs", ReadOnly: true,
	}}
	if diff := cmp.Diff(wantMounts, container.VolumeMounts); diff != "" {
		t.Errorf("mounts: -want, +got:\n%s", diff)
	}
}

func TestCertificateIsIssuedForTheService(t *testing.T) {
	objects := components(t)
	service := find[corev1.Service](t, objects, "Service", webhookService)
	found := ofKind(objects, "Certificate")[0]
	names, _, _ := unstructured.NestedStringSlice(found.Object, "spec", "dnsNames")
	host := service.Name + "." + service.Namespace + ".svc"
	if diff := cmp.Diff([]string{host, host + ".cluster.local"}, names); diff != "" {
		t.Errorf("names in the certificate: -want, +got:\n%s", diff)
	}
	issuer, _, _ := unstructured.NestedString(found.Object, "spec", "issuerRef", "name")
	if issuers := ofKind(objects, "Issuer"); len(issuers) != 1 || issuers[0].GetName() != issuer {
		t.Errorf("issuer is %s, want one of %v", issuer, issuers)
	}
}
