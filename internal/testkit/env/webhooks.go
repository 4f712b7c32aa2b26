package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// webhookManifests is the file of controller-gen with the webhooks of this provider.
const webhookManifests = "config/webhook/manifests.yaml"

// anyNamespace redirects webhooks of services in all namespaces.
const anyNamespace = ""

// WebhookServer is the address of the webhooks of a manager under test, and its authority. Host, Port and CertDir are
// for webhook.Options of controller-runtime.
type WebhookServer struct {
	Host    string
	Port    int
	CertDir string

	// Authority is the certificate of the authority in PEM format.
	Authority []byte
}

// NewWebhookServer reserves a port and creates certificates for another manager.
func (s *Server) NewWebhookServer(name string) (WebhookServer, error) {
	port, err := s.group.Port()
	if err != nil {
		return WebhookServer{}, err
	}
	folder, err := s.serverPair(name)
	if err != nil {
		return WebhookServer{}, err
	}
	return WebhookServer{Host: loopback, Port: port, CertDir: folder, Authority: s.authority.Certificate()}, nil
}

// RedirectWebhooks sets the address of the admission and conversion webhooks of a provider to a manager that runs as
// a process, because no pods run.
func (s *Server) RedirectWebhooks(ctx context.Context, namespace string, to WebhookServer) error {
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	var definitions apiextensionsv1.CustomResourceDefinitionList
	for _, list := range []client.ObjectList{&mutating, &validating, &definitions} {
		if err := s.Client.List(ctx, list); err != nil {
			return err
		}
	}
	var objects []client.Object
	for i := range mutating.Items {
		objects = append(objects, &mutating.Items[i])
	}
	for i := range validating.Items {
		objects = append(objects, &validating.Items[i])
	}
	for i := range definitions.Items {
		objects = append(objects, &definitions.Items[i])
	}
	for _, object := range objects {
		before := object.DeepCopyObject().(client.Object) //nolint:errcheck // a copy is of the same type
		if !to.redirect(object, namespace) {
			continue
		}
		if err := s.Client.Patch(ctx, object, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("redirecting the webhooks of %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// installWebhooks installs the webhooks of controller-gen with the address of the manager under test.
func (s *Server) installWebhooks(ctx context.Context) error {
	content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(webhookManifests)))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist; make generate writes it: %w", webhookManifests, err)
	}
	if err != nil {
		return err
	}
	decoder := serializer.NewCodecFactory(build.Scheme()).UniversalDeserializer()
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(content)))
	defer documents.Close() //nolint:errcheck // it reads from memory
	buffer := make([]byte, len(content))
	for {
		length, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		decoded, _, err := decoder.Decode(buffer[:length], nil, nil)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", webhookManifests, err)
		}
		object, isObject := decoded.(client.Object)
		if !isObject || !s.Webhook.redirect(object, anyNamespace) {
			return fmt.Errorf("parsing %s: %T has no webhooks", webhookManifests, decoded)
		}
		if err := s.Client.Create(ctx, object); err != nil {
			return err
		}
	}
}

// redirect replaces the services of the webhooks of an object by the address of a process, if they are in the
// namespace. It returns false if there are none.
func (w WebhookServer) redirect(object client.Object, namespace string) bool {
	switch object := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		changed := false
		for i := range object.Webhooks {
			changed = w.redirectAdmission(&object.Webhooks[i].ClientConfig, namespace) || changed
		}
		return changed
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		changed := false
		for i := range object.Webhooks {
			changed = w.redirectAdmission(&object.Webhooks[i].ClientConfig, namespace) || changed
		}
		return changed
	case *apiextensionsv1.CustomResourceDefinition:
		return w.redirectConversion(object, namespace)
	default:
		return false
	}
}

func (w WebhookServer) redirectAdmission(config *admissionregistrationv1.WebhookClientConfig, namespace string) bool {
	if config.Service == nil || (namespace != anyNamespace && config.Service.Namespace != namespace) {
		return false
	}
	path := ""
	if config.Service.Path != nil {
		path = *config.Service.Path
	}
	config.URL, config.Service, config.CABundle = w.url(path), nil, w.Authority
	return true
}

func (w WebhookServer) redirectConversion(definition *apiextensionsv1.CustomResourceDefinition, namespace string) bool {
	conversion := definition.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
		return false
	}
	service := conversion.Webhook.ClientConfig.Service
	if service == nil || service.Namespace != namespace {
		return false
	}
	w.convert(definition)
	return true
}

// convert sets the conversion webhook of a CRD.
func (w WebhookServer) convert(definition *apiextensionsv1.CustomResourceDefinition) {
	definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: w.url("/convert"), CABundle: w.Authority},
			ConversionReviewVersions: []string{"v1"},
		},
	}
}

func (w WebhookServer) url(path string) *string {
	url := fmt.Sprintf("https://%s:%d/%s", w.Host, w.Port, strings.TrimPrefix(path, "/"))
	return &url
}
