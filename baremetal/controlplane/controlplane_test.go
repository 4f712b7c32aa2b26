package controlplane_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/staticpod"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

// key returns the key of a number. Keys and signatures are reproducible.
func key(number byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
}

// certificate returns a certificate of the addresses, or of an authority without addresses.
func certificate(tb testing.TB, own, signer ed25519.PrivateKey, addresses ...string) []byte {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Unix(1_700_000_000, 0), NotAfter: time.Unix(2_000_000_000, 0), BasicConstraintsValid: true,
	}
	authority := *template
	authority.IsCA, authority.KeyUsage = true, x509.KeyUsageCertSign
	if len(addresses) == 0 {
		template = &authority
	} else {
		template.Subject.CommonName = "ironic"
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	der, err := x509.CreateCertificate(nil, template, &authority, own.Public(), signer)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodedKey(tb testing.TB, own ed25519.PrivateKey) []byte {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// least returns an endpoint with required fields only.
func least(tb testing.TB) controlplane.Endpoint {
	tb.Helper()
	return controlplane.Endpoint{
		Ironic: infrav1.Ironic{
			ClusterID: "3f9c1a7e",
			Endpoint: infrav1.IronicEndpoint{
				VirtualIPs: []string{"172.22.0.2"}, CIDRs: []string{"172.22.0.0/24"}, Interface: "provisioning",
			},
		},
		GuardImage: "registry.example/guard:v1",
		Credentials: controlplane.Credentials{
			Username: []byte("ironic"), Password: []byte("open-sesame"),
			Htpasswd: []byte("ironic:$2y$05$C6UzMDM.H6dfI/f/IKcEeO5cB7vGg0bq1v1Ih1lN0m6nXnZ9eK1yK\n"),
		},
		Certificates: controlplane.Certificates{
			Certificate: certificate(tb, key(2), key(1), "172.22.0.2", "fd00:172:22::2"),
			Key:         encodedKey(tb, key(2)),
			Authority:   certificate(tb, key(1), key(1)),
		},
	}
}

// agent is the folder of RKE2 with the files of kubeadm's /etc/kubernetes, and manifests the folder of its static pods.
const (
	agent     = "/var/lib/rancher/rke2/agent"
	manifests = agent + "/pod-manifests"
)

// full returns an endpoint with all fields, for a control plane of RKE2.
func full(tb testing.TB) controlplane.Endpoint {
	tb.Helper()
	endpoint := least(tb)
	duration := func(length time.Duration) *metav1.Duration { return &metav1.Duration{Duration: length} }
	described := &endpoint.Ironic
	described.Endpoint = infrav1.IronicEndpoint{
		VirtualIPs: []string{"172.22.0.2", "fd00:172:22::2"}, CIDRs: []string{"172.22.0.0/24", "fd00:172:22::/64"},
		Interface: "br0", Port: 16385, ImagePort: 16180, ImageTLSPort: 16183,
	}
	described.VRRP = infrav1.VRRP{
		VirtualRouterID: 77, Mode: infrav1.VRRPUnicast, AdvertisementInterval: duration(time.Second),
		Peers: []string{"172.22.0.21", "172.22.0.10", "fd00:172:22::21", "fd00:172:22::10"},
	}
	described.TakeoverAfterSilence = duration(15 * time.Minute)
	described.DHCP = &infrav1.IronicDHCP{
		RangeBegin: "172.22.0.100", RangeEnd: "172.22.0.200", Gateway: "172.22.0.1", DNS: []string{"172.22.0.1"},
		LeaseTime: duration(time.Hour),
	}
	described.Images = infrav1.IronicImages{
		Keepalived: "registry.example/keepalived:v4", Ironic: "registry.example/ironic:v2",
		RamdiskDownloader: "registry.example/ipa:v3", PullPolicy: corev1.PullAlways,
	}
	described.Ramdisk = infrav1.IronicRamdisk{BaseURL: "https://images.example/ipa"}
	described.ManifestsDirectory = manifests
	described.Kubelet = &infrav1.IronicKubelet{
		Kubeconfig:      agent + "/kubelet.kubeconfig",
		CredentialFiles: []string{agent + "/client-kubelet.crt", agent + "/client-kubelet.key", agent + "/server-ca.crt"},
	}
	return endpoint
}

func TestFiles(t *testing.T) {
	cold := full(t)
	cold.Ironic.Standby, cold.Ironic.Takeover = infrav1.StandbyCold, infrav1.TakeoverAlways
	cold.Ironic.TakeoverAfterSilence = nil
	cold.Ironic.Ramdisk = infrav1.IronicRamdisk{DisableDownloader: new(true)}
	for name, endpoint := range map[string]controlplane.Endpoint{"least": least(t), "full": full(t), "cold": cold} {
		t.Run(name, func(t *testing.T) {
			files, err := controlplane.Files(endpoint)
			if err != nil {
				t.Fatal(err)
			}
			var list strings.Builder
			size := 0
			isMounted := func(file bootdata.File) bool { return !strings.HasSuffix(file.Path, ".yaml") }
			if pods := slices.DeleteFunc(slices.Clone(files), isMounted); isMounted(files[len(files)-len(pods)]) {
				t.Error("a kubelet could start a pod before its files exist")
			}
			for _, file := range files {
				fmt.Fprintf(&list, "%v %s\n", file.Mode, file.Path)
				size += len(file.Content)
				if strings.HasSuffix(file.Path, ".json") || strings.HasSuffix(file.Path, ".yaml") {
					golden.Equal(t, filepath.Join(name, filepath.Base(file.Path)), file.Content)
					withoutSecrets(t, file, endpoint)
				}
			}
			golden.Equal(t, filepath.Join(name, "files.txt"), []byte(list.String()))
			again, err := controlplane.Files(endpoint)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(files, again); diff != "" {
				t.Errorf("a second call returns other files (-first +second):\n%s", diff)
			}
			t.Logf("%d files of %d bytes in all", len(files), size)
		})
	}
}

// withoutSecrets requires that a manifest or a printed file contains no secrets.
func withoutSecrets(t *testing.T, file bootdata.File, endpoint controlplane.Endpoint) {
	t.Helper()
	for _, secret := range [][]byte{
		endpoint.Credentials.Password, endpoint.Credentials.Htpasswd, endpoint.Certificates.Key,
	} {
		if bytes.Contains(file.Content, bytes.TrimSpace(secret)) {
			t.Errorf("%s contains a secret", file.Path)
		}
	}
}

// TestPodsOfFiles parses the manifests more strictly than a kubelet.
func TestPodsOfFiles(t *testing.T) {
	files, err := controlplane.Files(full(t))
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[string]bool{}
	for _, file := range files {
		if filepath.Dir(file.Path) != manifests {
			continue
		}
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict(file.Content, &pod); err != nil {
			t.Fatalf("%s: %v", file.Path, err)
		}
		if references := staticpod.References(&pod.Spec); len(references) > 0 {
			t.Errorf("%s refers to %v", file.Path, references)
		}
		hashes[pod.Annotations[ironic.HashAnnotation]] = true
	}
	if len(hashes) != 1 || hashes[""] {
		t.Errorf("hashes of the pods are %v, want one", hashes)
	}
}

// TestSettingsToKeepalived performs the steps of the guard: settings of the machine, an own address, keepalived.conf.
func TestSettingsToKeepalived(t *testing.T) {
	files, err := controlplane.Files(full(t))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := vip.Decode(content(t, files, "/etc/kubernetes/metal3-ironic/guard.json"))
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := keepalived.Render(keepalivedOf(t, settings, 21))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"router_id 3f9c1a7e-node-21", "interface br0", "virtual_router_id 77", "advert_int 1.00",
		"unicast_src_ip 172.22.0.21", "172.22.0.10 min_ttl 255 max_ttl 255", "172.22.0.2/24 dev br0",
		"fd00:172:22::2/128 dev br0",
	} {
		if !strings.Contains(string(rendered), "    "+line+"\n") {
			t.Errorf("keepalived.conf has no line %q:\n%s", line, rendered)
		}
	}
}

func content(t *testing.T, files []bootdata.File, path string) []byte {
	t.Helper()
	for _, file := range files {
		if file.Path == path {
			return file.Content
		}
	}
	t.Fatalf("there is no file %s", path)
	return nil
}

// TestHash changes one input after the other.
func TestHash(t *testing.T) {
	seen := map[string]string{}
	note := func(what string, change func(*controlplane.Endpoint)) {
		endpoint := full(t)
		change(&endpoint)
		files, err := controlplane.Files(endpoint)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var pod corev1.Pod
		if err := yaml.Unmarshal(content(t, files, manifests+"/metal3-vip.yaml"), &pod); err != nil {
			t.Fatal(err)
		}
		hash := pod.Annotations[ironic.HashAnnotation]
		if got, err := controlplane.Hash(endpoint); err != nil || got != hash {
			t.Errorf("%s: Hash returns %q, %v, want that of the pods, %s", what, got, err, hash)
		}
		if other, found := seen[hash]; found {
			t.Errorf("%s and %s have the same hash %s", what, other, hash)
		}
		seen[hash] = what
	}
	note("nothing", func(*controlplane.Endpoint) {})
	note("password", func(e *controlplane.Endpoint) {
		e.Credentials.Htpasswd = append(slices.Clone(e.Credentials.Htpasswd), "before:$2y$05$hash\n"...)
	})
	note("router ID", func(e *controlplane.Endpoint) { e.Ironic.VRRP.VirtualRouterID = 78 })
	note("kubeconfig", func(e *controlplane.Endpoint) { e.Ironic.Kubelet = nil })
	note("lease time", func(e *controlplane.Endpoint) { e.Ironic.DHCP.LeaseTime = nil })
	// The manifests alone contain these.
	note("image", func(e *controlplane.Endpoint) { e.Ironic.Images.Ironic += ".1" })
	note("image of the release", func(e *controlplane.Endpoint) { e.Ironic.Images.Keepalived = "" })
	note("option", func(e *controlplane.Endpoint) {
		e.Ironic.ExtraConfig = []infrav1.IronicOption{{Group: "conductor", Name: "workers_pool_size", Value: "200"}}
	})
	note("proxy", func(e *controlplane.Endpoint) { e.Ironic.Proxy.HTTPProxy = "http://proxy.example:3128" })
	note("ramdisk", func(e *controlplane.Endpoint) { e.Ironic.Ramdisk.BaseURL += "/2" })
	note("kernel parameters", func(e *controlplane.Endpoint) { e.Ironic.Ramdisk.ExtraKernelParams = "quiet" })
	note("override", func(e *controlplane.Endpoint) {
		e.Ironic.Overrides.Containers = []infrav1.IronicContainerOverride{{Name: "ironic", Resources: infrav1.IronicResources{
			Limits: infrav1.IronicResourceList{Memory: "2Gi"},
		}}}
	})
	note("inspection", func(e *controlplane.Endpoint) { e.Ironic.Inspection.Collectors = []string{"default"} })
	note("external URL", func(e *controlplane.Endpoint) {
		e.Ironic.Endpoint.ExternalCallbackURL = "https://ironic.example:6385"
	})
	note("exporter", func(e *controlplane.Endpoint) { e.Ironic.PrometheusExporter.Enabled = new(true) })
	note("standby", func(e *controlplane.Endpoint) { e.Ironic.Standby = infrav1.StandbyCold })
	note("certificate", func(e *controlplane.Endpoint) {
		e.Certificates.Certificate = certificate(t, key(2), key(1), "172.22.0.2", "fd00:172:22::2", "172.22.0.3")
	})
}

func TestFilesRefuses(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*controlplane.Endpoint)
		want   string
	}{
		"no user": {
			reason: "htpasswd requires a user", want: "username is empty",
			change: func(e *controlplane.Endpoint) { e.Credentials.Username = nil },
		},
		"two lines of password": {
			reason: "clients read one line", want: "password is empty or has a line end",
			change: func(e *controlplane.Endpoint) { e.Credentials.Password = []byte("a\nb") },
		},
		"htpasswd of another user": {
			reason: "no user could log in", want: `no bcrypt hash for user "admin"`,
			change: func(e *controlplane.Endpoint) { e.Credentials.Username = []byte("admin") },
		},
		"clear text": {
			reason: "the web server compares hashes", want: "no bcrypt hash",
			change: func(e *controlplane.Endpoint) { e.Credentials.Htpasswd = []byte("ironic:open-sesame\n") },
		},
		"endless request": {
			reason: "the schema may be older than the manager",
			want:   `overrides.containers[ironic].resources.requests.cpu: "1e-999999999" is not a quantity`,
			change: func(e *controlplane.Endpoint) {
				e.Ironic.Overrides.Containers = []infrav1.IronicContainerOverride{{Name: "ironic"}}
				e.Ironic.Overrides.Containers[0].Resources.Requests.CPU = "1e-999999999"
			},
		},
		"key of another certificate": {
			reason: "the web server does not start", want: "reading tls.crt and tls.key",
			change: func(e *controlplane.Endpoint) { e.Certificates.Key = encodedKey(t, key(3)) },
		},
		"certificate of another address": {
			reason: "clients would reject the certificate", want: "tls.crt is not valid for fd00:172:22::2",
			change: func(e *controlplane.Endpoint) {
				e.Certificates.Certificate = certificate(t, key(2), key(1), "172.22.0.2")
			},
		},
		"authority that did not sign": {
			reason: "clients would reject the certificate", want: "tls.crt was not signed by ca.crt",
			change: func(e *controlplane.Endpoint) { e.Certificates.Authority = certificate(t, key(3), key(3)) },
		},
		"no authority": {
			reason: "clients require a CA", want: "ca.crt contains no certificate",
			change: func(e *controlplane.Endpoint) { e.Certificates.Authority = nil },
		},
		"no clusterID": {
			reason: "the clusterID is set before files are rendered", want: "clusterID is empty",
			change: func(e *controlplane.Endpoint) { e.Ironic.ClusterID = "" },
		},
		"no guard": {
			reason: "the release sets the image", want: "image of the guard is empty",
			change: func(e *controlplane.Endpoint) { e.GuardImage, e.Ironic.Images.Keepalived = "", "" },
		},
		"alone": {
			reason: "unicast requires two members", want: "at least two, and there are 1",
			change: func(e *controlplane.Endpoint) { e.Ironic.VRRP.Peers = e.Ironic.VRRP.Peers[1:] },
		},
		"address outside": {
			reason: "a typing mistake", want: "is not in its network",
			change: func(e *controlplane.Endpoint) { e.Ironic.Endpoint.CIDRs[0] = "172.23.0.0/24" },
		},
		"invalid range": {
			reason: "the webhook may have been disabled", want: `dhcp.rangeEnd is "?"`,
			change: func(e *controlplane.Endpoint) { e.Ironic.DHCP.RangeEnd = "?" },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			endpoint := full(t)
			c.change(&endpoint)
			files, err := controlplane.Files(endpoint)
			if err == nil || !strings.Contains(err.Error(), c.want) || files != nil {
				t.Errorf("%s: want an error with %q, got %v and %d files", c.reason, c.want, err, len(files))
			}
			_, _, err = controlplane.Management(endpoint, ironic.Management{Name: "ironic", Namespace: "metal3"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: want an error with %q on the management side, got %v", c.reason, c.want, err)
			}
		})
	}
}

// TestKubelet has credentials that cannot be mounted. Only control-plane nodes with takeover AfterMove require them.
func TestKubelet(t *testing.T) {
	endpoint := full(t)
	endpoint.Ironic.Kubelet.CredentialDirectories = []string{"/run"}
	files, err := controlplane.Files(endpoint)
	if err == nil || !strings.Contains(err.Error(), `path "/run" of the kubelet overlaps`) || files != nil {
		t.Errorf("want an error about the directory, got %v and %d files", err, len(files))
	}
	place := ironic.Management{Name: "ironic", Namespace: "metal3", Secret: "ironic-files"}
	want, wantData, err := controlplane.Management(full(t), place)
	if err != nil {
		t.Fatal(err)
	}
	got, gotData, err := controlplane.Management(endpoint, place)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got) + cmp.Diff(wantData, gotData); diff != "" {
		t.Errorf("the management side depends on the kubelet (-want +got):\n%s", diff)
	}
	endpoint.Ironic.Takeover, endpoint.Ironic.TakeoverAfterSilence = infrav1.TakeoverManual, nil
	if _, err := controlplane.Files(endpoint); err != nil {
		t.Errorf("takeover Manual requires credentials: %v", err)
	}
}

func TestManagement(t *testing.T) {
	deployment, data, err := controlplane.Management(full(t),
		ironic.Management{Name: "ironic", Namespace: "metal3", Secret: "ironic-files"})
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := yaml.Marshal(deployment)
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "management/deployment.yaml", rendered)
	golden.Equal(t, "management/guard.json", data["guard.json"])
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		for _, item := range volume.Secret.Items {
			if len(data[item.Key]) == 0 {
				t.Errorf("the Secret has no key %s for %s", item.Key, item.Path)
			}
		}
		if len(volume.Secret.Items) != len(data) {
			t.Errorf("the Secret has %d keys, %d of which are mounted", len(data), len(volume.Secret.Items))
		}
	}
	settings, err := vip.Decode(data["guard.json"])
	if err != nil {
		t.Fatal(err)
	}
	if settings.Role != vip.Management || settings.Files.Kubeconfig != "" {
		t.Errorf("settings of the management side are %+v", settings)
	}
}

// TestInput requires that rendering does not change its input, which may be an object of a cache.
func TestInput(t *testing.T) {
	endpoint := full(t)
	if _, err := controlplane.Files(endpoint); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(t), endpoint); diff != "" {
		t.Errorf("the input changed (-before +after):\n%s", diff)
	}
}

func BenchmarkFiles(b *testing.B) {
	endpoint := full(b)
	for b.Loop() {
		if _, err := controlplane.Files(endpoint); err != nil {
			b.Fatal(err)
		}
	}
}
