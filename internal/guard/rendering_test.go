package guard_test

import (
	"net"
	"testing"
	"time"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
)

// benchmarkRendering renders all files of a machine into its bootstrap data.
func benchmarkRendering(b *testing.B, all *measures) {
	b.Helper()
	took := all.row("rendering for one machine, into its bootstrap data", "ms", 5)
	issued := issue(b, []net.IP{net.ParseIP(vip4.String()), net.ParseIP(vip6.String())}, time.Now().Add(time.Hour))
	endpoint := controlplane.Endpoint{
		Ironic: infrav1.Ironic{
			ClusterID: clusterID,
			Endpoint: infrav1.IronicEndpoint{
				VirtualIPs: []string{vip4.String(), vip6.String()}, CIDRs: []string{"172.22.0.0/24", "fd00:22::/64"},
				Interface: "provisioning",
			},
			DHCP: &infrav1.IronicDHCP{RangeBegin: "172.22.0.100", RangeEnd: "172.22.0.200"},
		},
		GuardImage: "registry.example/guard:v1",
		Credentials: controlplane.Credentials{
			Username: []byte("ironic"), Password: []byte("secret"),
			Htpasswd: []byte("ironic:$2y$05$C6UzMDM.H6dfI/f/IKcEeO5cB7vGg0bq1v1Ih1lN0m6nXnZ9eK1yK\n"),
		},
		Certificates: controlplane.Certificates{
			Certificate: issued.certificate, Key: issued.key, Authority: issued.authority,
		},
	}
	bootstrap := []byte("## template: jinja\n#cloud-config\nruncmd:\n- kubeadm init --node-name {{ ds.meta_data.name }}\n")
	for b.Loop() {
		// The first iterations of a program are slow.
		for range 20 {
			began := time.Now()
			files, err := controlplane.Files(endpoint)
			must(b, err)
			_, err = bootdata.Add(bootstrap, bootdata.CloudConfig, files)
			must(b, err)
			took.add(time.Since(began).Seconds() * 1000)
		}
	}
}
