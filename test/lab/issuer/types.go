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
	// Namespace is the namespace of the Deployment, and of the Secrets of ClusterIssuers. clusterctl requires this name.
	Namespace = "cert-manager"

	group   = "cert-manager.io"
	version = "v1"

	certificateKind   = "Certificate"
	issuerKind        = "Issuer"
	clusterIssuerKind = "ClusterIssuer"

	// certificateAnnotation is the annotation of the Secret of a Certificate with its name.
	certificateAnnotation = group + "/certificate-name"

	// injectAnnotation is the annotation of webhooks and CRDs with namespace/name of a Certificate.
	injectAnnotation = group + "/inject-ca-from"

	readyCondition = "Ready"

	// keyAlgorithm and keySize are the type of every key.
	keyAlgorithm, keySize = "ECDSA", 256

	// keepKey is the rotation policy that keeps the key when a certificate is issued again.
	keepKey = "Never"

	// authorityKey is the key of the certificate of the authority in a Secret.
	authorityKey = "ca.crt"

	// defaultDuration is the default validity of a certificate.
	defaultDuration = 90 * 24 * time.Hour

	// renewFraction is the default remaining part of the validity at the renewal.
	renewFraction = 3
)

// certificateSpec has the supported fields of a Certificate.
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

// privateKey is the type of a key. Only ECDSA P-256 is supported, also as the default.
type privateKey struct {
	Algorithm      string `json:"algorithm,omitempty"`
	Size           int    `json:"size,omitempty"`
	RotationPolicy string `json:"rotationPolicy,omitempty"`
}

// made returns true for the supported type.
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

// issuerSpec has the supported fields of an Issuer or a ClusterIssuer. One of them must be set.
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

// issuer returns the issuer, with the defaults of cert-manager.
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

// readCertificate returns the spec of a Certificate, or its problem.
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
		return spec, problemf(reasonUnsupported, "spec.privateKey asks for %s with %d bits: only %s with %d is supported",
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

// readSpec decodes the spec. It returns an error for an unknown field, because the certificate would not match it.
func readSpec(object *unstructured.Unstructured, into any) error {
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, into, true); err != nil {
		return fmt.Errorf("spec has a field that this replacement of cert-manager does not support: %w", err)
	}
	return nil
}
