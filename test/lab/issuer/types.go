package issuer

import (
	"fmt"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Namespace holds the Deployment, and the Secrets of ClusterIssuers. clusterctl looks for it by this name.
	Namespace = "cert-manager"

	group   = "cert-manager.io"
	version = "v1"

	certificateKind   = "Certificate"
	issuerKind        = "Issuer"
	clusterIssuerKind = "ClusterIssuer"

	// certificateAnnotation is on Secrets that were made for a Certificate and holds its name.
	certificateAnnotation = group + "/certificate-name"

	// injectAnnotation is on webhooks and definitions and holds namespace/name of a Certificate.
	injectAnnotation = group + "/inject-ca-from"

	readyCondition = "Ready"

	// keyAlgorithm and keySize are those of every key that is made here.
	keyAlgorithm, keySize = "ECDSA", 256

	// keepKey is the rotation policy that keeps the key when a certificate is issued again.
	keepKey = "Never"

	// authorityKey is where a Secret holds the certificate of the authority, beside the two keys of kubernetes.io/tls.
	authorityKey = "ca.crt"

	// defaultDuration is how long a certificate is valid that does not say it.
	defaultDuration = 90 * 24 * time.Hour

	// renewFraction is the part of the duration that is left when a certificate is renewed that does not say it.
	renewFraction = 3
)

// certificateSpec is all of a Certificate that is understood here.
type certificateSpec struct {
	SecretName  string           `json:"secretName"`
	IssuerRef   issuerReference  `json:"issuerRef"`
	CommonName  string           `json:"commonName,omitempty"`
	Subject     subject          `json:"subject,omitempty"`
	DNSNames    []string         `json:"dnsNames,omitempty"`
	IPAddresses []string         `json:"ipAddresses,omitempty"`
	IsCA        bool             `json:"isCA,omitempty"`
	Duration    *metav1.Duration `json:"duration,omitempty"`
	RenewBefore *metav1.Duration `json:"renewBefore,omitempty"`
	Usages      []string         `json:"usages,omitempty"`
	PrivateKey  privateKey       `json:"privateKey,omitempty"`
}

// privateKey says what kind of key there is. Only ECDSA P-256 is made, also where the algorithm is left out.
type privateKey struct {
	Algorithm      string `json:"algorithm,omitempty"`
	Size           int    `json:"size,omitempty"`
	RotationPolicy string `json:"rotationPolicy,omitempty"`
}

// made says whether it is a key as they are made here.
func (k privateKey) made() bool {
	return (k.Algorithm == "" || k.Algorithm == keyAlgorithm) && (k.Size == 0 || k.Size == keySize)
}

type subject struct {
	Organizations []string `json:"organizations,omitempty"`
}

type issuerReference struct {
	Name  string `json:"name"`
	Kind  string `json:"kind,omitempty"`
	Group string `json:"group,omitempty"`
}

// issuerSpec is all of an Issuer or a ClusterIssuer that is understood here. One of the fields has to be set.
type issuerSpec struct {
	SelfSigned *struct{}        `json:"selfSigned,omitempty"`
	CA         *authoritySource `json:"ca,omitempty"`
}

type authoritySource struct {
	SecretName string `json:"secretName"`
}

func (s certificateSpec) duration() time.Duration {
	if s.Duration == nil {
		return defaultDuration
	}
	return s.Duration.Duration
}

func (s certificateSpec) renewBefore() time.Duration {
	if s.RenewBefore == nil {
		return s.duration() / renewFraction
	}
	return s.RenewBefore.Duration
}

// issuer says which object signs, with the defaults of cert-manager.
func (s certificateSpec) issuer() issuerReference {
	reference := s.IssuerRef
	if reference.Kind == "" {
		reference.Kind = issuerKind
	}
	if reference.Group == "" {
		reference.Group = group
	}
	return reference
}

// readCertificate reads the spec of a Certificate and says what is wrong with it.
func readCertificate(object *unstructured.Unstructured) (certificateSpec, *problem) {
	var spec certificateSpec
	if err := readSpec(object, &spec); err != nil {
		return spec, problemf(reasonUnsupported, "%v", err)
	}
	switch {
	case spec.duration() < time.Second:
		return spec, problemf(reasonInvalid, "spec.duration is %s: give a second or more", spec.duration())
	case spec.renewBefore() < 0 || spec.renewBefore() >= spec.duration():
		return spec, problemf(reasonInvalid, "spec.renewBefore is %s: give less than the duration, which is %s",
			spec.renewBefore(), spec.duration())
	case spec.CommonName == "" && len(spec.DNSNames) == 0 && len(spec.IPAddresses) == 0:
		return spec, problemf(reasonInvalid, "spec names nothing: set commonName, dnsNames or ipAddresses")
	}
	if _, err := spec.keyUsages(); err != nil {
		return spec, problemf(reasonUnsupported, "%v", err)
	}
	if !spec.PrivateKey.made() {
		return spec, problemf(reasonUnsupported, "spec.privateKey asks for %s with %d bits: only %s with %d is made here",
			spec.PrivateKey.Algorithm, spec.PrivateKey.Size, keyAlgorithm, keySize)
	}
	for _, address := range spec.IPAddresses {
		if net.ParseIP(address) == nil {
			return spec, problemf(reasonInvalid, "spec.ipAddresses holds %q: give IP addresses", address)
		}
	}
	return spec, nil
}

func newObject(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kindOf(kind))
	return object
}

func newList(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kindOf(kind + "List"))
	return list
}

func kindOf(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

// readSpec reads spec and refuses fields that are unknown here, because ignoring one could make a certificate that
// says something else than was asked for.
func readSpec(object *unstructured.Unstructured, into any) error {
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, into, true); err != nil {
		return fmt.Errorf("this stand-in for cert-manager does not understand all of spec: %w", err)
	}
	return nil
}
