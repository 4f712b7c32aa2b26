package issuer

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	noon = time.Date(2027, time.January, 2, 12, 0, 0, 0, time.UTC)
	day  = &metav1.Duration{Duration: 24 * time.Hour}
)

func spec(change ...func(*certificateSpec)) certificateSpec {
	made := certificateSpec{
		SecretName: "secret", DNSNames: []string{"a.example", "b.example"}, IPAddresses: []string{"192.0.2.1", "2001:db8::1"},
		Duration: day,
	}
	for _, one := range change {
		one(&made)
	}
	return made
}

func secretOf(t *testing.T, spec certificateSpec, by *authority, now time.Time) *corev1.Secret {
	t.Helper()
	made, err := issue(spec, nil, by, now)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{
		corev1.TLSCertKey: made.certificate, corev1.TLSPrivateKeyKey: made.key, authorityKey: made.authority,
	}}
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	asCA := func(s *certificateSpec) { s.IsCA, s.CommonName = true, "authority" }
	made, err := readAuthority(secretOf(t, spec(asCA), nil, noon))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestIssue verifies certificates as a client does.
func TestIssue(t *testing.T) {
	for name, by := range map[string]*authority{"SelfSigned": nil, "Authority": newAuthority(t)} {
		t.Run(name, func(t *testing.T) {
			secret := secretOf(t, spec(), by, noon)
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM(secret.Data[authorityKey]) {
				t.Fatal("ca.crt has no certificate")
			}
			block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			for _, host := range []string{"a.example", "b.example", "192.0.2.1", "2001:db8::1"} {
				options := x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: noon.Add(time.Hour)}
				if _, err := certificate.Verify(options); err != nil {
					t.Errorf("%s: %v", host, err)
				}
			}
			late := x509.VerifyOptions{Roots: roots, CurrentTime: noon.Add(25 * time.Hour)}
			if _, err := certificate.Verify(late); err == nil {
				t.Error("the certificate is valid for longer than a day")
			}
		})
	}
}

func TestInspect(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	cases := map[string]struct {
		reason string
		secret *corev1.Secret
		spec   certificateSpec
		by     *authority
		now    time.Time
		want   string
	}{
		"Good":       {"nothing changed", secretOf(t, spec(), first, noon), spec(), first, noon, ""},
		"GoodSelf":   {"nothing changed", secretOf(t, spec(), nil, noon), spec(), nil, noon, ""},
		"Absent":     {"the user deleted it", nil, spec(), nil, noon, "does not exist"},
		"Empty":      {"the user emptied it", &corev1.Secret{}, spec(), nil, noon, "no key pair"},
		"OtherCA":    {"the authority was replaced", secretOf(t, spec(), first, noon), spec(), second, noon, "another authority"},
		"NowSelf":    {"the issuer changed its type", secretOf(t, spec(), first, noon), spec(), nil, noon, "another authority"},
		"NowCA":      {"the issuer changed its type", secretOf(t, spec(), nil, noon), spec(), first, noon, "another authority"},
		"BeforeTime": {"a third is not yet left", secretOf(t, spec(), nil, noon), spec(), nil, noon.Add(15 * time.Hour), ""},
		"Renewal":    {"a third is left", secretOf(t, spec(), nil, noon), spec(), nil, noon.Add(16 * time.Hour), "renewed"},
		"Name": {
			"a name was added", secretOf(t, spec(), nil, noon),
			spec(func(s *certificateSpec) { s.DNSNames = append(s.DNSNames, "c.example") }), nil, noon, "does not match",
		},
		"Address": {
			"an address was removed", secretOf(t, spec(), nil, noon),
			spec(func(s *certificateSpec) { s.IPAddresses = s.IPAddresses[:1] }), nil, noon, "does not match",
		},
		"Duration": {
			"the duration changed", secretOf(t, spec(), nil, noon),
			spec(func(s *certificateSpec) { s.Duration = nil }), nil, noon, "does not match",
		},
		"Usages": {
			"the usages changed", secretOf(t, spec(), nil, noon),
			spec(func(s *certificateSpec) { s.Usages = []string{"digital signature", "server auth"} }), nil, noon,
			"does not match",
		},
		"RenewBefore": {
			"renewBefore changed", secretOf(t, spec(), nil, noon),
			spec(func(s *certificateSpec) { s.RenewBefore = &metav1.Duration{Duration: 23 * time.Hour} }), nil,
			noon.Add(time.Hour), "renewed",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			certificate, _, err := inspect(tc.spec, tc.secret, tc.by, tc.now)
			if tc.want == "" {
				if err != nil || certificate == nil {
					t.Errorf("%s: certificate %v, error %v", tc.reason, certificate, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error %v, want it to contain %q", tc.reason, err, tc.want)
			}
		})
	}
}

// TestChain issues the certificates of Ironic: an authority that keeps its key, and a certificate for servers only.
func TestChain(t *testing.T) {
	asCA := func(s *certificateSpec) {
		s.IsCA, s.CommonName, s.PrivateKey.RotationPolicy = true, "authority", keepKey
	}
	first := secretOf(t, spec(asCA), nil, noon)
	again, err := issue(spec(asCA), first, nil, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if string(again.key) != string(first.Data[corev1.TLSPrivateKeyKey]) {
		t.Error("the authority has another key, want the previous one")
	}
	by, err := readAuthority(first)
	if err != nil {
		t.Fatal(err)
	}
	leaf := spec(func(s *certificateSpec) { s.Usages = []string{"digital signature", "server auth"} })
	block, _ := pem.Decode(secretOf(t, leaf, by, noon).Data[corev1.TLSCertKey])
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	// The renewed authority verifies certificates of the first one.
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(again.certificate)
	options := x509.VerifyOptions{Roots: roots, DNSName: "192.0.2.1", CurrentTime: noon.Add(2 * time.Hour)}
	if _, err := certificate.Verify(options); err != nil {
		t.Error(err)
	}
	options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := certificate.Verify(options); err == nil {
		t.Error("the certificate is valid for clients, want servers only")
	}
}

func TestReadAuthority(t *testing.T) {
	_, err := readAuthority(secretOf(t, spec(), nil, noon))
	if err == nil || !strings.Contains(err.Error(), "isCA") {
		t.Errorf("error %v, want one with the remedy", err)
	}
}

func TestReadCertificate(t *testing.T) {
	reference := map[string]any{"name": "issuer"}
	cases := map[string]struct {
		spec map[string]any
		want string
	}{
		"Good": {map[string]any{"secretName": "s", "issuerRef": reference, "dnsNames": []any{"a"}}, ""},
		"Unknown": {
			map[string]any{"secretName": "s", "issuerRef": reference, "dnsNames": []any{"a"}, "uris": []any{"b"}}, "uris",
		},
		"Nothing":  {map[string]any{"secretName": "s", "issuerRef": reference}, "names nothing"},
		"Address":  {map[string]any{"secretName": "s", "issuerRef": reference, "ipAddresses": []any{"300.1.1.1"}}, "300.1.1.1"},
		"Duration": {map[string]any{"issuerRef": reference, "commonName": "a", "duration": "1ms"}, "1ms"},
		"Usages": {
			map[string]any{"issuerRef": reference, "commonName": "a", "usages": []any{"timestamping"}}, "timestamping",
		},
		"Key": {
			map[string]any{
				"issuerRef": reference, "commonName": "a", "privateKey": map[string]any{"algorithm": "RSA", "size": int64(2048)},
			}, "RSA",
		},
		"RenewBefore": {
			map[string]any{"issuerRef": reference, "commonName": "a", "duration": "1h", "renewBefore": "2h"}, "2h0m0s",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := newObject(certificateKind)
			object.Object["spec"] = tc.spec
			_, why := readCertificate(object)
			if tc.want == "" {
				if why != nil {
					t.Error(why.message)
				}
				return
			}
			if why == nil || !strings.Contains(why.message, tc.want) {
				t.Errorf("problem %+v, want it to contain %q", why, tc.want)
			}
		})
	}
}
