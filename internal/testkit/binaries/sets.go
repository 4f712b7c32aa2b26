package binaries

import "strings"

// KubernetesVersion is the version of the built control plane. clusterctl refuses a server without a version.
const KubernetesVersion = "v1.36.3"

// EarlierKubernetesVersion is a release of the minor version before that of KubernetesVersion. Tests upgrade from it.
const EarlierKubernetesVersion = "v1.35.4"

// CoreDNSVersion is the release that kubeadm of KubernetesVersion deploys.
const CoreDNSVersion = "v1.14.2"

// EtcdVersion is the release that kubeadm of KubernetesVersion deploys, as the tag of its container image.
const EtcdVersion = "3.6.8-0"

// CAPIVersion is the Cluster API release whose programs, CRDs and components are used.
const CAPIVersion = "v1.14.2"

// ControlPlane is the programs of a management cluster with garbage collection.
func ControlPlane() Set {
	set := kubernetes("controlplane", KubernetesVersion, "kube-apiserver", "kubectl", "kube-controller-manager")
	set.Programs = append([]Program{{Name: "etcd", Package: "go.etcd.io/etcd/server/v3"}}, set.Programs...)
	return set
}

// Nodes is the programs of a machine of a cluster besides the control plane. Its own module keeps them out of
// ControlPlane.
func Nodes() Set {
	return kubernetes("nodes", KubernetesVersion, "kubelet", "kubeadm", "kube-scheduler", "kube-proxy")
}

// EarlierNodes is the programs of nodes and control planes of EarlierKubernetesVersion, without etcd.
func EarlierNodes() Set {
	return kubernetes("nodesearlier", EarlierKubernetesVersion, "kubelet", "kubeadm", "kubectl", "kube-apiserver",
		"kube-controller-manager", "kube-scheduler", "kube-proxy")
}

// kubernetes returns a set of commands of a release of Kubernetes.
func kubernetes(name, version string, commands ...string) Set {
	set := Set{
		Name: name, LDFlags: versionFlags(version, "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"),
	}
	for _, command := range commands {
		set.Programs = append(set.Programs, Program{Name: command, Package: "k8s.io/kubernetes/cmd/" + command})
	}
	return set
}

// CoreDNS is the name server of a cluster, with the plugins that kubeadm's Corefile uses.
func CoreDNS() Set {
	return Set{
		Name:     "coredns",
		Programs: []Program{{Name: "coredns", Package: "."}},
	}
}

// ClusterAPI is the core of Cluster API: its command line and its three managers.
func ClusterAPI() Set {
	return Set{
		Name:    "capi",
		Tags:    "fieldsv1string",
		LDFlags: versionFlags(CAPIVersion, "sigs.k8s.io/cluster-api/version"),
		Programs: []Program{
			{Name: "clusterctl", Package: "sigs.k8s.io/cluster-api/cmd/clusterctl"},
			{Name: "core-manager", Package: "sigs.k8s.io/cluster-api/core"},
			{Name: "bootstrap-manager", Package: "sigs.k8s.io/cluster-api/bootstrap/kubeadm"},
			{Name: "control-plane-manager", Package: "sigs.k8s.io/cluster-api/controlplane/kubeadm"},
		},
	}
}

// CertManager is the released cert-manager, with self-signed and CA issuers.
func CertManager() Set {
	return Set{
		Name:     "certmanager",
		Tags:     "fieldsv1string",
		Programs: []Program{{Name: "cert-manager", Package: "."}},
	}
}

// BaremetalOperator is the released BMO.
func BaremetalOperator() Set {
	return Set{
		Name:     "bmo",
		Programs: []Program{{Name: "baremetal-operator", Package: "github.com/metal3-io/baremetal-operator"}},
	}
}

// EarlierBaremetalOperator is the last release of the minor version before that of BaremetalOperator.
func EarlierBaremetalOperator() Set {
	set := BaremetalOperator()
	set.Name = "bmoearlier"
	return set
}

// AddressManager is the released IP address manager of Metal3.
func AddressManager() Set {
	return Set{
		Name:     "ipam",
		Programs: []Program{{Name: "ip-address-manager", Package: "github.com/metal3-io/ip-address-manager"}},
	}
}

// InClusterAddressManager is the released in-cluster provider of Cluster API's IPAM contract.
func InClusterAddressManager() Set {
	return Set{
		Name: "inclusteripam",
		Programs: []Program{{
			Name: "cluster-api-ipam-provider-in-cluster", Package: "sigs.k8s.io/cluster-api-ipam-provider-in-cluster",
		}},
	}
}

// Ignition is a program with the validators of Ignition, and with the renderer of the kubeadm bootstrap provider.
func Ignition() Set {
	return Set{
		Name:     "ignition",
		Tags:     "fieldsv1string",
		Programs: []Program{{Name: "ignition", Package: "."}},
	}
}

// Tools are the code generators.
func Tools() Set {
	return Set{
		Name: "tools",
		Programs: []Program{
			{Name: "controller-gen", Package: "sigs.k8s.io/controller-tools/cmd/controller-gen"},
			{Name: "kustomize", Package: "sigs.k8s.io/kustomize/kustomize/v5"},
			{Name: "setup-envtest", Package: "sigs.k8s.io/controller-runtime/tools/setup-envtest"},
		},
	}
}

// Linters has its own module, so that its dependencies do not change the versions of the generators.
func Linters() Set {
	return Set{
		Name: "linters",
		Programs: []Program{
			{Name: "golangci-lint", Package: "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"},
		},
	}
}

// Sets returns every set by its name.
func Sets() map[string]Set {
	sets := map[string]Set{}
	for _, set := range []Set{
		ControlPlane(), Nodes(), EarlierNodes(), CoreDNS(), ClusterAPI(), CertManager(), BaremetalOperator(),
		EarlierBaremetalOperator(), AddressManager(), InClusterAddressManager(), Ignition(), Tools(), Linters(),
	} {
		sets[set.Name] = set
	}
	return sets
}

func versionFlags(version string, packages ...string) string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	var flags strings.Builder
	for _, pkg := range packages {
		for _, field := range [][2]string{
			{"gitVersion", version},
			{"gitMajor", major},
			{"gitMinor", minor},
			{"gitTreeState", "clean"},
			{"gitCommit", strings.Repeat("0", 40)},
			{"buildDate", "2026-01-01T00:00:00Z"},
		} {
			flags.WriteString(" -X " + pkg + "." + field[0] + "=" + field[1])
		}
	}
	return flags.String()
}
