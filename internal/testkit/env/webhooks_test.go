package env_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// TestWebhooks requires that the API server calls and trusts the manager under test.
func TestWebhooks(t *testing.T) {
	g := NewWithT(t)
	server, err := env.Start(t.Context(), env.Options{
		Definitions: []components.Group{components.Provider}, Webhooks: true,
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	g.Expect(server.Client.Create(t.Context(), build.Namespace(build.DefaultNamespace))).To(Succeed())

	err = server.Client.Create(t.Context(), build.Metal3Cluster("nobody-listens"))
	g.Expect(err).To(MatchError(ContainSubstring("connection refused")))

	called := serveWebhooks(t, server.Webhook)
	g.Eventually(func() error {
		return server.Client.Create(t.Context(), build.Metal3Cluster("allowed"))
	}, patience).Should(Succeed())
	err = server.Client.Create(t.Context(), build.Metal3Cluster("denied"))
	g.Expect(err).To(MatchError(ContainSubstring("because of its name")))
	g.Expect(<-called).To(Equal("/mutate-infrastructure-cluster-x-k8s-io-v1beta2-metal3cluster"))

	var definition apiextensionsv1.CustomResourceDefinition
	name := client.ObjectKey{Name: "metal3machines.infrastructure.cluster.x-k8s.io"}
	g.Expect(server.Client.Get(t.Context(), name, &definition)).To(Succeed())
	g.Expect(definition.Spec.Conversion.Webhook.ClientConfig.URL).To(HaveValue(HaveSuffix(
		":" + strconv.Itoa(server.Webhook.Port) + "/convert")))
}

// TestRedirectWebhooks requires that only the webhooks of the namespace are redirected.
func TestRedirectWebhooks(t *testing.T) {
	g := NewWithT(t)
	server, err := env.Start(t.Context(), env.Options{Definitions: []components.Group{components.BaremetalOperator}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	name := client.ObjectKey{Name: "baremetalhosts.metal3.io"}
	var definition apiextensionsv1.CustomResourceDefinition
	g.Expect(server.Client.Get(t.Context(), name, &definition)).To(Succeed())
	definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{Namespace: "installed", Name: "webhooks"},
			},
		},
	}
	g.Expect(server.Client.Update(t.Context(), &definition)).To(Succeed())

	g.Expect(server.RedirectWebhooks(t.Context(), "another", server.Webhook)).To(Succeed())
	g.Expect(server.Client.Get(t.Context(), name, &definition)).To(Succeed())
	g.Expect(definition.Spec.Conversion.Webhook.ClientConfig.Service).NotTo(BeNil())

	g.Expect(server.RedirectWebhooks(t.Context(), "installed", server.Webhook)).To(Succeed())
	g.Expect(server.Client.Get(t.Context(), name, &definition)).To(Succeed())
	g.Expect(definition.Spec.Conversion.Webhook.ClientConfig.Service).To(BeNil())
	g.Expect(definition.Spec.Conversion.Webhook.ClientConfig.CABundle).To(Equal(server.Webhook.Authority))
}

// serveWebhooks admits all objects except those named denied. The channel receives the path of the first call.
func serveWebhooks(t *testing.T, where env.WebhookServer) <-chan string {
	t.Helper()
	called := make(chan string, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case called <- r.URL.Path:
		default:
		}
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		allowed := review.Request.Name != "denied" || strings.HasPrefix(r.URL.Path, "/mutate")
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: allowed, Result: &metav1.Status{Message: "because of its name"},
		}
		review.Request = nil
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	})}
	address := net.JoinHostPort(where.Host, strconv.Itoa(where.Port))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- server.ServeTLS(listener, filepath.Join(where.CertDir, "tls.crt"), filepath.Join(where.CertDir, "tls.key"))
	}()
	t.Cleanup(func() {
		if err := server.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return called
}

// TestAssets requires an error for an incomplete folder of the user.
func TestAssets(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", folder)
	_, err := env.Start(t.Context(), env.Options{Definitions: []components.Group{}})
	for _, want := range []string{"KUBEBUILDER_ASSETS", folder, "etcd", "unset"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to contain %q", err, want)
		}
	}
}
