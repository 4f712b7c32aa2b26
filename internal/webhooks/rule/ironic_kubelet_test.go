package rule_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

const agentOfRKE2 = "/var/lib/rancher/rke2/agent"

// kubeletOfRKE2 is the example of RKE2 in the documents.
func kubeletOfRKE2() *infrav1.IronicKubelet {
	return &infrav1.IronicKubelet{
		Kubeconfig: agentOfRKE2 + "/kubelet.kubeconfig",
		CredentialFiles: []string{
			agentOfRKE2 + "/client-kubelet.crt", agentOfRKE2 + "/client-kubelet.key", agentOfRKE2 + "/server-ca.crt",
		},
	}
}

func TestIronicKubelet(t *testing.T) {
	const shape = "is not an absolute path in its shortest form; write it like /etc/kubernetes/kubelet.conf"
	const remedy = " of the guard container; list only paths in the kubeconfig, and keep those files elsewhere"
	kubelet := func(change func(*infrav1.IronicKubelet)) func(*infrav1.Ironic) {
		return func(ironic *infrav1.Ironic) {
			ironic.Kubelet = kubeletOfRKE2()
			change(ironic.Kubelet)
		}
	}
	mistakes := map[string]mistake{
		"RKE2": {reason: "as in the documents", change: kubelet(func(*infrav1.IronicKubelet) {})},
		"as kubeadm": {
			reason: "the default may be set explicitly",
			change: kubelet(func(kubelet *infrav1.IronicKubelet) {
				kubelet.Kubeconfig, kubelet.CredentialFiles = "/etc/kubernetes/kubelet.conf", nil
				kubelet.CredentialDirectories = []string{"/var/lib/kubelet/pki"}
			}),
		},
		"no kubeconfig": {
			reason: "credentials without a kubeconfig",
			change: kubelet(func(kubelet *infrav1.IronicKubelet) { kubelet.Kubeconfig = "" }),
			want: []string{"ironic.kubelet.kubeconfig: Required value: name the kubeconfig of the kubelet, or leave out " +
				"kubelet where kubeadm makes the nodes"},
		},
		"twice": {
			reason: "a container has one mount per path",
			change: kubelet(func(kubelet *infrav1.IronicKubelet) {
				kubelet.CredentialFiles[2] = kubelet.Kubeconfig
				kubelet.CredentialDirectories = []string{kubelet.CredentialFiles[0]}
			}),
			want: []string{
				`ironic.kubelet.credentialFiles[2]: Duplicate value: "` + agentOfRKE2 + `/kubelet.kubeconfig"`,
				`ironic.kubelet.credentialDirectories[0]: Duplicate value: "` + agentOfRKE2 + `/client-kubelet.crt"`,
			},
		},
	}
	for place, own := range map[string]string{
		"/etc/kubernetes/metal3-ironic/tls": "/etc/kubernetes/metal3-ironic", "/etc": "/etc/kubernetes/metal3-ironic",
		"/run/metal3-ironic": "/run/metal3-ironic", "/var/lib": "/var/lib/metal3-ironic/guard", "/guard": "/guard",
		"/proc/self": "/proc", "/usr/share/pki": "/usr",
	} {
		mistakes["directory "+place] = mistake{
			reason: "the mount would hide a part of the container",
			change: kubelet(func(kubelet *infrav1.IronicKubelet) { kubelet.CredentialDirectories = []string{place} }),
			want: []string{`ironic.kubelet.credentialDirectories[0]: Invalid value: "` + place + `": overlaps with ` + own +
				remedy},
		}
	}
	for _, wrong := range []string{"kubelet.conf", "/etc/kubelet/", "/etc/../kubelet.conf", "/", "/etc/my kubelet"} {
		mistakes["kubeconfig "+wrong] = mistake{
			reason: "only the shortest form can be compared",
			change: kubelet(func(kubelet *infrav1.IronicKubelet) { kubelet.Kubeconfig = wrong }),
			want:   []string{`ironic.kubelet.kubeconfig: Invalid value: "` + wrong + `": ` + shape},
		}
	}
	findMistakes(t, mistakes)
}

func TestUnknownKubelet(t *testing.T) {
	const warning = `spec.ironic.kubelet: is not set while manifestsDirectory is "` + agentOfRKE2 + `/pod-manifests"; ` +
		"without /etc/kubernetes/kubelet.conf and /var/lib/kubelet/pki on the nodes the pod metal3-vip does not start and " +
		"the node never takes the VIP, so unless kubeadm makes the nodes set kubelet.kubeconfig and the credentials that " +
		"it refers to"
	for name, c := range map[string]struct {
		reason string
		ironic infrav1.Ironic
		want   []string
	}{
		"moved": {
			reason: "AfterMove is the default",
			ironic: infrav1.Ironic{ManifestsDirectory: agentOfRKE2 + "/pod-manifests"}, want: []string{warning},
		},
		"moved, written out": {
			reason: "the same",
			ironic: infrav1.Ironic{
				ManifestsDirectory: agentOfRKE2 + "/pod-manifests", Takeover: infrav1.TakeoverAfterMove,
			},
			want: []string{warning},
		},
		"moved with its kubelet": {
			reason: "the kubelet is set",
			ironic: infrav1.Ironic{ManifestsDirectory: agentOfRKE2 + "/pod-manifests", Kubelet: kubeletOfRKE2()},
		},
		"moved, and the Node is not read": {
			reason: "the guard does not read the Node",
			ironic: infrav1.Ironic{
				ManifestsDirectory: agentOfRKE2 + "/pod-manifests", Takeover: infrav1.TakeoverManual,
			},
		},
		"kubeadm":              {reason: "the default"},
		"kubeadm, written out": {reason: "the default, set explicitly", ironic: infrav1.Ironic{ManifestsDirectory: "/etc/kubernetes/manifests"}},
	} {
		t.Run(name, func(t *testing.T) {
			described := least()
			described.ManifestsDirectory, described.Takeover = c.ironic.ManifestsDirectory, c.ironic.Takeover
			described.Kubelet = c.ironic.Kubelet
			got := rule.ClusterSpec(field.NewPath("spec"), &infrav1.Metal3ClusterSpec{Ironic: described})
			if diff := cmp.Diff(c.want, got.Warnings); diff != "" || len(got.Errors) > 0 {
				t.Errorf("%s: errors %v, warnings (-want +got):\n%s", c.reason, got.Errors, diff)
			}
		})
	}
}
