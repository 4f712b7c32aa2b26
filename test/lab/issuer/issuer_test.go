package issuer_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/issuer"
)

const (
	// patience is the time limit of each wait.
	patience = 30 * time.Second

	namespace = "stories"
)

// world is an API server with an issuer that has the RBAC rules of its Deployment.
type world struct {
	server *env.Server
	stop   func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctrl.SetLogger(klog.Background())
	SetDefaultEventuallyTimeout(patience)
	g := NewWithT(t)
	server, err := env.Start(t.Context(), env.Options{Definitions: []components.Group{components.CertManager}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, object := range issuer.Objects("lab.invalid/issuer:test") {
		g.Expect(server.Client.Create(t.Context(), object)).To(Succeed())
	}
	g.Expect(server.Client.Create(t.Context(), build.Namespace(namespace))).To(Succeed())
	w := &world{server: server}
	w.start(t)
	return w
}

func (w *world) start(t *testing.T) {
	t.Helper()
	config, err := w.server.User("system:serviceaccount:"+issuer.Namespace+":"+issuer.Name,
		"system:serviceaccounts", "system:serviceaccounts:"+issuer.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- issuer.Run(ctx, config, "0") }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the issuer ended: %v", err)
		}
	}
	t.Cleanup(w.stop)
}

func (w *world) create(t *testing.T, manifest string, values ...any) {
	t.Helper()
	manifest = fmt.Sprintf(manifest, values...)
	if _, err := w.server.KubectlWithInput(t.Context(), strings.NewReader(manifest), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// ready returns status and message of the condition Ready.
func (w *world) ready(ctx context.Context, kind, name string) func() (string, error) {
	return func() (string, error) {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("cert-manager.io/v1")
		object.SetKind(kind)
		key := client.ObjectKey{Namespace: namespace, Name: name}
		if kind == "ClusterIssuer" {
			key.Namespace = ""
		}
		if err := w.server.Client.Get(ctx, key, object); err != nil {
			return "", err
		}
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		if err != nil || len(conditions) != 1 {
			return "", err
		}
		condition, ok := conditions[0].(map[string]any)
		if !ok {
			return "", fmt.Errorf("a condition is %T", conditions[0])
		}
		return fmt.Sprintf("%s=%s: %s", condition["type"], condition["status"], condition["message"]), nil
	}
}

func (w *world) secret(ctx context.Context, name string) func(Gomega) *corev1.Secret {
	return func(g Gomega) *corev1.Secret {
		secret := &corev1.Secret{}
		g.Expect(w.server.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)).To(Succeed())
		return secret
	}
}

const selfSigned = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self, namespace: stories}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: serving, namespace: stories}
spec:
  dnsNames: [service.stories.svc]
  issuerRef: {kind: Issuer, name: self}
  secretName: serving-cert
  subject: {organizations: [stories]}
`

// TestSelfSigned uses cert-manager as Cluster API and its providers do.
func TestSelfSigned(t *testing.T) {
	w, g := newWorld(t), NewWithT(t)
	webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{
			Name: "webhooks", Annotations: map[string]string{"cert-manager.io/inject-ca-from": namespace + "/serving"},
		},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{webhook("a.example.org"), webhook("b.example.org")},
	}
	g.Expect(w.server.Client.Create(t.Context(), webhooks)).To(Succeed())
	g.Expect(w.server.Client.Create(t.Context(), definition())).To(Succeed())

	w.create(t, selfSigned)
	g.Eventually(w.ready(t.Context(), "Issuer", "self")).Should(HavePrefix("Ready=True"))
	g.Eventually(w.ready(t.Context(), "Certificate", "serving")).Should(HavePrefix("Ready=True"))
	secret := w.secret(t.Context(), "serving-cert")(g)
	g.Expect(secret.Type).To(Equal(corev1.SecretTypeTLS))
	loaded, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(loaded.Leaf.VerifyHostname("service.stories.svc")).To(Succeed())
	g.Expect(loaded.Leaf.Subject.Organization).To(Equal([]string{"stories"}))

	w.expectInjected(t, secret)

	// A user deletes the Secret. The issuer creates a new one, and all injected objects get it.
	g.Expect(w.server.Client.Delete(t.Context(), secret)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(w.secret(t.Context(), "serving-cert")(g).UID).NotTo(Equal(secret.UID))
	}).Should(Succeed())
	w.expectInjected(t, w.secret(t.Context(), "serving-cert")(g))

	// A second start issues no certificate.
	version := w.secret(t.Context(), "serving-cert")(g).ResourceVersion
	w.stop()
	w.start(t)
	w.create(t, `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: second, namespace: stories}
spec: {commonName: second, issuerRef: {name: self}, secretName: second-cert}`)
	g.Eventually(w.ready(t.Context(), "Certificate", "second")).Should(HavePrefix("Ready=True"))
	g.Expect(w.secret(t.Context(), "serving-cert")(g).ResourceVersion).To(Equal(version))
}

func (w *world) expectInjected(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		var webhooks admissionregistrationv1.ValidatingWebhookConfiguration
		g.Expect(w.server.Client.Get(t.Context(), client.ObjectKey{Name: "webhooks"}, &webhooks)).To(Succeed())
		for _, one := range webhooks.Webhooks {
			g.Expect(one.ClientConfig.CABundle).To(Equal(secret.Data["ca.crt"]))
		}
		var things apiextensionsv1.CustomResourceDefinition
		g.Expect(w.server.Client.Get(t.Context(), client.ObjectKey{Name: "things.example.org"}, &things)).To(Succeed())
		g.Expect(things.Spec.Conversion.Webhook.ClientConfig.CABundle).To(Equal(secret.Data["ca.crt"]))
	}).Should(Succeed())
}

// TestClusterctl installs Cluster API with the real clusterctl: clusterctl must not replace the issuer, and the issuer
// must sign all certificates.
func TestClusterctl(t *testing.T) {
	w, g := newWorld(t), NewWithT(t)
	source := components.Source{Root: w.server.Root(), Progress: os.Stderr}
	config, err := source.WriteRepository(t.Context(), components.Repository{Folder: t.TempDir()})
	g.Expect(err).NotTo(HaveOccurred())
	clusterctl, err := source.Clusterctl(t.Context(), config, w.server.Kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	_, log, err := clusterctl.RunWithLog(t.Context(), "init", "--infrastructure=-")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(log).To(ContainSubstring("Skipping installing cert-manager as it is already installed"))

	g.Eventually(func(g Gomega) {
		for _, name := range []string{
			"capi-system/capi-webhook-service-cert",
			"capi-kubeadm-bootstrap-system/capi-kubeadm-bootstrap-webhook-service-cert",
			"capi-kubeadm-control-plane-system/capi-kubeadm-control-plane-webhook-service-cert",
		} {
			namespace, name, _ := strings.Cut(name, "/")
			g.Expect(w.server.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name},
				&corev1.Secret{})).To(Succeed())
		}
		var definitions apiextensionsv1.CustomResourceDefinitionList
		g.Expect(w.server.Client.List(t.Context(), &definitions)).To(Succeed())
		injected := 0
		for _, definition := range definitions.Items {
			if definition.Annotations["cert-manager.io/inject-ca-from"] != "" {
				g.Expect(definition.Spec.Conversion.Webhook.ClientConfig.CABundle).NotTo(BeEmpty(), definition.Name)
				injected++
			}
		}
		g.Expect(injected).To(BeNumerically(">", 10))
	}).Should(Succeed())
}

// TestAuthority tests CA issuers, and updates after changes.
func TestAuthority(t *testing.T) {
	w, g := newWorld(t), NewWithT(t)
	w.create(t, selfSigned)
	w.create(t, `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: authority, namespace: stories}
spec: {ca: {secretName: authority-cert}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: leaf, namespace: stories}
spec: {commonName: leaf, ipAddresses: [192.0.2.7], duration: 3s, issuerRef: {name: authority}, secretName: leaf-cert}
`)
	g.Eventually(w.ready(t.Context(), "Issuer", "authority")).Should(
		And(HavePrefix("Ready=False"), ContainSubstring("authority-cert")))
	g.Eventually(w.ready(t.Context(), "Certificate", "leaf")).Should(HavePrefix("Ready=False"))

	w.create(t, `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: authority, namespace: stories}
spec: {commonName: authority, isCA: true, issuerRef: {name: self}, secretName: authority-cert}`)
	g.Eventually(w.ready(t.Context(), "Issuer", "authority")).Should(HavePrefix("Ready=True"))
	g.Eventually(w.ready(t.Context(), "Certificate", "leaf")).Should(HavePrefix("Ready=True"))
	authority, leaf := w.secret(t.Context(), "authority-cert")(g), w.secret(t.Context(), "leaf-cert")(g)
	g.Expect(leaf.Data["ca.crt"]).To(Equal(authority.Data["tls.crt"]))

	// The certificate is valid for three seconds, so it is renewed after two without an event.
	g.Eventually(func(g Gomega) {
		g.Expect(w.secret(t.Context(), "leaf-cert")(g).Data["tls.crt"]).NotTo(Equal(leaf.Data["tls.crt"]))
	}).Should(Succeed())
}

// TestClusterIssuer has a Secret in the namespace of the issuer.
func TestClusterIssuer(t *testing.T) {
	w, g := newWorld(t), NewWithT(t)
	w.create(t, `
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: self}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: authority}
spec: {ca: {secretName: authority}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: leaf, namespace: stories}
spec: {commonName: leaf, issuerRef: {kind: ClusterIssuer, name: authority}, secretName: leaf}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: authority, namespace: %s}
spec: {commonName: authority, isCA: true, issuerRef: {kind: ClusterIssuer, name: self}, secretName: authority}
`, issuer.Namespace)
	g.Eventually(w.ready(t.Context(), "Certificate", "leaf")).Should(HavePrefix("Ready=True"))
}

// TestRefusals requires conditions for unsupported features.
func TestRefusals(t *testing.T) {
	w, g := newWorld(t), NewWithT(t)
	w.create(t, `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: vault, namespace: stories}
spec: {vault: {path: a, server: b, auth: {tokenSecretRef: {name: c}}}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: vault, namespace: stories}
spec: {commonName: a, issuerRef: {name: vault}, secretName: refused}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: keystore, namespace: stories}
spec: {commonName: a, uris: ["spiffe://a"], issuerRef: {name: vault}, secretName: refused}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: orphan, namespace: stories}
spec: {commonName: a, issuerRef: {name: missing}, secretName: refused}
`)
	g.Eventually(w.ready(t.Context(), "Issuer", "vault")).Should(And(HavePrefix("Ready=False"), ContainSubstring("vault")))
	g.Eventually(w.ready(t.Context(), "Certificate", "vault")).Should(HavePrefix("Ready=False"))
	g.Eventually(w.ready(t.Context(), "Certificate", "keystore")).Should(ContainSubstring("uris"))
	g.Eventually(w.ready(t.Context(), "Certificate", "orphan")).Should(ContainSubstring("Issuer missing does not exist"))
	err := w.server.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "refused"}, &corev1.Secret{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

func webhook(name string) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name: name, AdmissionReviewVersions: []string{"v1"},
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "service"},
		},
	}
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	preserve := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "things.example.org",
			Annotations: map[string]string{"cert-manager.io/inject-ca-from": namespace + "/serving"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.org", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: preserve},
			}},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ConversionReviewVersions: []string{"v1"},
					ClientConfig: &apiextensionsv1.WebhookClientConfig{
						Service: &apiextensionsv1.ServiceReference{Namespace: namespace, Name: "service"},
					},
				},
			},
		},
	}
}
