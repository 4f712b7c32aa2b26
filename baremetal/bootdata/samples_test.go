package bootdata_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

// added returns the files of all goldens: text that jinja would expand, binary content, and an empty file.
func added() []bootdata.File {
	return []bootdata.File{
		{Path: "/etc/kubernetes/manifests/metal3-vip.yaml", Mode: 0o600, Content: []byte("name: {{ nobody }} {% expands %} {# this #}\n")},
		{Path: "/etc/kubernetes/metal3-ironic/auth/password", Mode: 0o400, Content: []byte{0, 0xff, '\n', 0x1f, 0x8b}},
		{Path: "/etc/kubernetes/metal3-ironic/empty", Mode: 0o644},
	}
}

// format of a golden: only Ignition starts with a brace.
func format(data []byte) string {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return bootdata.Ignition
	}
	return bootdata.CloudConfig
}

// samples returns the inputs of the goldens by their names.
func samples(tb testing.TB) map[string][]byte {
	tb.Helper()
	found, err := filepath.Glob("testdata/*/input")
	if err != nil || len(found) < 10 {
		tb.Fatalf("found %d samples: %v", len(found), err)
	}
	inputs := map[string][]byte{}
	for _, name := range found {
		data, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		inputs[filepath.Base(filepath.Dir(name))] = data
	}
	return inputs
}

// TestSamplesOfKubeadm renders the samples with the code of the kubeadm bootstrap provider.
func TestSamplesOfKubeadm(t *testing.T) {
	base := cloudinit.BaseUserData{
		BootCommands:        []string{"echo \"boot\""},
		PreKubeadmCommands:  []string{"hostnamectl set-hostname \"{{ ds.meta_data.name }}\"", "sleep 1"},
		PostKubeadmCommands: []string{"echo done"},
		AdditionalFiles: []bootstrapv1.File{
			{Path: "/etc/motd", Owner: "root:root", Permissions: "0644", Content: "# metal3-files begin\n  node {{ ds.meta_data.name }}\n\n\n"},
			{Path: "/etc/binary", Encoding: bootstrapv1.Base64, Content: "AAECAw==", Permissions: "0600"},
			{Path: "/etc/hosts", Append: new(true), Content: "192.0.2.1 registry # é"},
		},
		NTP:    &bootstrapv1.NTP{Enabled: new(true), Servers: []string{"192.0.2.7"}},
		Users:  []bootstrapv1.User{{Name: "metal3", Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA me@example.com"}}},
		Mounts: []bootstrapv1.MountPoints{{"LABEL=var", "/var/lib/etcd"}},
	}
	certificates := secret.Certificates{&secret.Certificate{
		Purpose: secret.ClusterCA, CertFile: "/etc/kubernetes/pki/ca.crt", KeyFile: "/etc/kubernetes/pki/ca.key",
		KeyPair: &certs.KeyPair{Cert: []byte("certificate\n"), Key: []byte("key\n")},
	}}
	first, err := cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
		BaseUserData: base, Certificates: certificates,
		ClusterConfiguration: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: target\n",
		InitConfiguration:    "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration:\n  name: '{{ ds.meta_data.name }}'\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, filepath.Join("kubeadm-init", "input"), first)

	join, err := cloudinit.NewJoinControlPlane(&cloudinit.ControlPlaneJoinInput{
		BaseUserData: base, Certificates: certificates,
		JoinConfiguration: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration:\n  name: '{{ ds.meta_data.name }}'\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, filepath.Join("kubeadm-join", "input"), join)
}

func TestGoldens(t *testing.T) {
	for name, input := range samples(t) {
		t.Run(name, func(t *testing.T) {
			got, err := bootdata.Add(input, format(input), added())
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, filepath.Join(name, "want"), got)
		})
	}
}
