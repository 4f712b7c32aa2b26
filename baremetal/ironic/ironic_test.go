package ironic_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/staticpod"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/verdict"
)

// least returns a Config with required fields only.
func least() ironic.Config {
	return ironic.Config{
		ClusterID: "3f9c1a7e", VirtualIPs: []netip.Addr{netip.MustParseAddr("172.22.0.2")}, Interface: "provisioning",
		Ports:  ironic.Ports{API: 6385, Image: 6180, ImageTLS: 6183},
		Images: ironic.Images{Guard: "registry.example/guard:v1"},
	}
}

func dhcp4() *ironic.DHCP {
	return &ironic.DHCP{
		Range: ironic.Range{
			Begin: netip.MustParseAddr("172.22.0.100"), End: netip.MustParseAddr("172.22.0.200"),
			Network: netip.MustParsePrefix("172.22.0.0/24"), Gateway: netip.MustParseAddr("172.22.0.1"),
		},
		DNS:       []netip.Addr{netip.MustParseAddr("172.22.0.1"), netip.MustParseAddr("172.22.0.3")},
		LeaseTime: time.Hour,
	}
}

func dhcp6() *ironic.DHCP {
	return &ironic.DHCP{
		Range: ironic.Range{
			Begin: netip.MustParseAddr("fd00:172:22::100"), End: netip.MustParseAddr("fd00:172:22::200"),
			Network: netip.MustParsePrefix("fd00:172:22::/64"),
		},
		DNS: []netip.Addr{netip.MustParseAddr("fd00:172:22::1")},
	}
}

// full returns a Config with all fields.
func full() ironic.Config {
	config := least()
	config.VirtualIPs = append(config.VirtualIPs, netip.MustParseAddr("fd00:172:22::2"))
	config.Kubelet, config.DHCP, config.Hash = ironic.KubeletOfKubeadm(), dhcp4(), "5d41402abc4b2a76"
	config.Images = ironic.Images{
		Guard: "registry.example/guard:v1", Ironic: "registry.example/ironic:v2", Downloader: "registry.example/ipa:v3",
		PullPolicy: corev1.PullNever,
	}
	config.Ramdisk = ironic.Ramdisk{
		Source: ironic.RamdiskSource{
			BaseURL: "https://images.example/ipa", KernelChecksum: strings.Repeat("0a", 32), RamdiskChecksum: strings.Repeat("0b", 32),
		},
		Branch: "stable-2026.1",
		Others: []ironic.OtherRamdisk{
			{Architecture: "aarch64", Flavor: "debian-arm64", Source: ironic.RamdiskSource{
				BaseURL: "https://images.example/arm", KernelChecksum: strings.Repeat("0c", 32), RamdiskChecksum: strings.Repeat("0d", 32),
			}},
			{Architecture: "ppc64le", Flavor: "debian-ppc"},
		},
		KernelParameters: "console=ttyS0 ipa-password=$(cat)", SSHKey: "ssh-ed25519 AAAA operator",
	}
	config.Settings = ironic.Settings{
		Options: []ironic.Option{{Name: "debug", Value: "false"}, {Group: "conductor", Name: "workers_pool_size", Value: "50"}},
		Proxy: ironic.Proxy{
			HTTP: "http://proxy.example:3128", HTTPS: "http://proxy.example:3128", Except: []string{"10.0.0.0/8"},
		},
		CallbackURL: "https://ironic.example:443", ImageURL: "https://images.example:443", PlainVirtualMedia: true, BMCAuthorities: true,
		TrustedAuthorities: true, GuardAddress: netip.IPv4Unspecified(),
		Collectors: []string{"default", "logs", "pci-devices"}, VLANs: []string{"eth0.100"},
		Exporter: &ironic.Exporter{Address: netip.IPv6Unspecified(), Port: 9608, Interval: 3 * time.Minute},
	}
	return config
}

func TestPods(t *testing.T) {
	cold := full()
	cold.Cold, cold.Ramdisk = true, ironic.Ramdisk{Present: true}
	v6 := least()
	v6.VirtualIPs = []netip.Addr{netip.MustParseAddr("fd00:172:22::2")}
	chosen := full()
	chosen.Interface, chosen.DHCP = "", dhcp6()
	for name, config := range map[string]ironic.Config{
		"least": least(), "full": full(), "cold": cold, "v6": v6, "chosen": chosen,
	} {
		t.Run(name, func(t *testing.T) {
			pods, err := ironic.Pods(config)
			if err != nil {
				t.Fatal(err)
			}
			for _, pod := range pods {
				content, err := staticpod.Render(pod)
				if err != nil {
					t.Fatal(err)
				}
				golden.Equal(t, filepath.Join(name, pod.Name+".yaml"), content)
				complete(t, pod.Spec)
			}
		})
	}
}

// TestInterfaceOfTheNode: no file and no container names an interface that the guard chooses, on either side.
func TestInterfaceOfTheNode(t *testing.T) {
	config := full()
	config.Interface, config.DHCP = "", dhcp6()
	file, err := ironic.DNSMasq(config)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(file), "interface=") || strings.Contains(string(file), "ra-param") {
		t.Errorf("dnsmasq.conf names an interface:\n%s", file)
	}
	want := map[string][]string{
		"ironic":  {"--interface-file=/run/metal3-ironic/interface"},
		"dnsmasq": {"--interface-file=/run/metal3-ironic/interface", "--interface={interface}", "--ra-param={interface},0,0"},
	}
	for _, container := range bothSides(t, config) {
		if slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "PROVISIONING_INTERFACE" }) {
			t.Errorf("container %s has PROVISIONING_INTERFACE", container.Name)
		}
		named := slices.DeleteFunc(slices.Clone(container.Command), func(argument string) bool {
			return !strings.Contains(argument, "interface")
		})
		if diff := cmp.Diff(want[container.Name], named, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("container %s (-want +got):\n%s", container.Name, diff)
		}
	}
}

// TestPriorities: out of memory, the kernel kills Ironic before etcd, and the guard after almost everything else. At a
// shutdown of the node, the kubelet reads only the value of a pod, and nothing sets that of a static pod.
func TestPriorities(t *testing.T) {
	pods, err := ironic.Pods(full())
	if err != nil {
		t.Fatal(err)
	}
	type priority struct {
		Class string
		Value *int32
	}
	got := map[string]priority{}
	for _, pod := range pods {
		got[pod.Name] = priority{pod.Spec.PriorityClassName, pod.Spec.Priority}
	}
	deployment, err := ironic.Deployment(full(), ironic.Management{Name: "ironic", Secret: "files"})
	if err != nil {
		t.Fatal(err)
	}
	ofDeployment := deployment.Spec.Template.Spec
	got["deployment"] = priority{ofDeployment.PriorityClassName, ofDeployment.Priority}
	want := map[string]priority{
		"metal3-vip":     {"system-node-critical", new(int32(2000001000))},
		"metal3-ironic":  {"system-cluster-critical", new(int32(2000000000))},
		"metal3-dnsmasq": {"system-cluster-critical", new(int32(2000000000))},
		"deployment":     {"system-cluster-critical", nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("priorities: -want +got:\n%s", diff)
	}
}

func TestDeployment(t *testing.T) {
	for name, config := range map[string]ironic.Config{"least": least(), "full": full()} {
		t.Run(name, func(t *testing.T) {
			deployment, err := ironic.Deployment(config, ironic.Management{
				Name: "ironic", Namespace: "metal3", Secret: "ironic-files", NodeSelector: map[string]string{"provisioning": "yes"},
			})
			if err != nil {
				t.Fatal(err)
			}
			content, err := yaml.Marshal(deployment)
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, filepath.Join(name, "deployment.yaml"), content)
			complete(t, deployment.Spec.Template.Spec)
			leavesLostNodes(t, deployment.Spec.Template.Spec)
		})
	}
}

// leavesLostNodes expects that the node controller replaces the pod on a lost node, and that no pod starts on a drained
// one.
func leavesLostNodes(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	for _, taint := range []corev1.Taint{
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
	} {
		for _, toleration := range pod.Tolerations {
			if toleration.ToleratesTaint(logr.Discard(), &taint, false) {
				t.Errorf("the pod tolerates %s for ever", taint.ToString())
			}
		}
	}
}

// TestKubelet mounts files of a kubelet at their paths. A runtime creates directories for missing paths without a type.
func TestKubelet(t *testing.T) {
	const agent = "/var/lib/rancher/rke2/agent/"
	for name, c := range map[string]struct {
		kubelet *ironic.Kubelet
		want    map[string]corev1.HostPathType
	}{
		"none": {nil, map[string]corev1.HostPathType{}},
		"kubeadm": {ironic.KubeletOfKubeadm(), map[string]corev1.HostPathType{
			"/etc/kubernetes/kubelet.conf": corev1.HostPathFile, "/var/lib/kubelet/pki": corev1.HostPathDirectory,
		}},
		"all in the kubeconfig": {&ironic.Kubelet{Kubeconfig: agent + "kubelet.kubeconfig"},
			map[string]corev1.HostPathType{agent + "kubelet.kubeconfig": corev1.HostPathFile}},
		"files and directories": {&ironic.Kubelet{
			Kubeconfig: agent + "kubelet.kubeconfig", Files: []string{agent + "server-ca.crt", agent + "client-kubelet.key"},
			Directories: []string{"/opt/kubelet/pki"},
		}, map[string]corev1.HostPathType{
			agent + "kubelet.kubeconfig": corev1.HostPathFile, agent + "server-ca.crt": corev1.HostPathFile,
			agent + "client-kubelet.key": corev1.HostPathFile, "/opt/kubelet/pki": corev1.HostPathDirectory,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			config := least()
			config.Kubelet = c.kubelet
			pods, err := ironic.Pods(config)
			if err != nil {
				t.Fatal(err)
			}
			spec := pods[len(pods)-1].Spec
			complete(t, spec)
			if diff := cmp.Diff(c.want, mountedInPlace(t, spec)); diff != "" {
				t.Errorf("paths of the kubelet (-want +got):\n%s", diff)
			}
		})
	}
}

// mountedInPlace returns the types of the read-only paths of the guard, without its own directory and that of Ironic.
// Each must have the path of the node.
func mountedInPlace(t *testing.T, spec corev1.PodSpec) map[string]corev1.HostPathType {
	t.Helper()
	sources := map[string]*corev1.HostPathVolumeSource{}
	for _, volume := range spec.Volumes {
		sources[volume.Name] = volume.HostPath
	}
	found := map[string]corev1.HostPathType{}
	for _, mount := range spec.Containers[0].VolumeMounts {
		source := sources[mount.Name]
		if source.Path != mount.MountPath {
			t.Errorf("%s of the node is mounted at %s", source.Path, mount.MountPath)
		}
		if mount.ReadOnly && source.Path != ironic.NodeDirectory && source.Path != ironic.SharedDirectory {
			found[source.Path] = *source.Type
		}
	}
	return found
}

// TestOnePodSpec compares static pods and the Deployment. Only the guard of the management side reads the handover, and
// only its web server reads a changed Secret.
func TestOnePodSpec(t *testing.T) {
	pods, err := ironic.Pods(full())
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := ironic.Deployment(full(), ironic.Management{Name: "ironic", Namespace: "metal3", Secret: "files"})
	if err != nil {
		t.Fatal(err)
	}
	byName := func(a, b corev1.Container) int { return strings.Compare(a.Name, b.Name) }
	var apart, together []corev1.Container
	for _, pod := range pods {
		apart = append(apart, append(pod.Spec.InitContainers, pod.Spec.Containers...)...)
	}
	// The pod of DHCP needs only the program of the guard.
	apart = slices.DeleteFunc(apart, func(c corev1.Container) bool { return c.Name == "prepare" && len(c.VolumeMounts) == 1 })
	slices.SortFunc(apart, byName)
	apart = slices.CompactFunc(apart, func(a, b corev1.Container) bool { return cmp.Equal(a, b) })
	together = append(together, deployment.Spec.Template.Spec.InitContainers...)
	together = append(together, deployment.Spec.Template.Spec.Containers...)
	slices.SortFunc(together, byName)
	only := func(name string, mounts ...string) *corev1.Container {
		t.Helper()
		container := &together[slices.IndexFunc(together, func(c corev1.Container) bool { return c.Name == name })]
		first := len(container.VolumeMounts) - len(mounts)
		var got []string
		for _, mount := range container.VolumeMounts[first:] {
			got = append(got, fmt.Sprint(mount.MountPath, " ", mount.ReadOnly))
		}
		if diff := cmp.Diff(mounts, got); diff != "" {
			t.Errorf("last mounts of %s in the Deployment: -want +got:\n%s", name, diff)
		}
		container.VolumeMounts = container.VolumeMounts[:first]
		return container
	}
	only("guard", ironic.HandoverDirectory+" true")
	httpd := only("httpd", ironic.NodeDirectory+" true", "/private false", "/tools true")
	if last := len(httpd.Command) - 1; httpd.Command[1] != "follow" || httpd.Command[last-1] != "--" {
		t.Errorf("the web server of the Deployment is started by %q", httpd.Command)
	} else {
		httpd.Command = httpd.Command[last:]
	}
	if diff := cmp.Diff(apart, together); diff != "" {
		t.Errorf("containers of static pods and of the Deployment differ (-static +deployment):\n%s", diff)
	}
}

// complete checks frequent errors that an API server would refuse.
func complete(t *testing.T, spec corev1.PodSpec) {
	t.Helper()
	mounted(t, spec)
	survivesReboot(t, spec)
	names := map[string]bool{}
	for _, container := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
		if names[container.Name] {
			t.Errorf("two containers are named %s", container.Name)
		}
		names[container.Name] = true
		if container.SecurityContext == nil || !slices.Equal(container.SecurityContext.Capabilities.Drop,
			[]corev1.Capability{"ALL"}) || *container.SecurityContext.AllowPrivilegeEscalation {
			t.Errorf("container %s keeps rights that the table does not name", container.Name)
		}
	}
	if !spec.HostNetwork || spec.DNSPolicy != corev1.DNSDefault || *spec.AutomountServiceAccountToken {
		t.Errorf("the pod requires objects of the cluster: %+v", spec)
	}
}

// survivesReboot checks that no init container but the first one writes to folders of the pod. The kubelet may skip the
// others after a reboot, which empties folders in memory.
func survivesReboot(t *testing.T, spec corev1.PodSpec) {
	t.Helper()
	emptied := map[string]bool{}
	for _, volume := range spec.Volumes {
		if volume.EmptyDir != nil {
			emptied[volume.Name] = true
		}
	}
	for i, container := range spec.InitContainers {
		for _, mount := range container.VolumeMounts {
			if i > 0 && emptied[mount.Name] && !mount.ReadOnly {
				t.Errorf("init container %s, which the kubelet may skip after a reboot, writes to %s", container.Name, mount.Name)
			}
		}
	}
}

// mounted compares volumes and mounts.
func mounted(t *testing.T, spec corev1.PodSpec) {
	t.Helper()
	volumes := map[string]bool{}
	for _, volume := range spec.Volumes {
		if volume.VolumeSource == (corev1.VolumeSource{}) {
			t.Errorf("volume %s has no source", volume.Name)
		}
		volumes[volume.Name] = false
	}
	for _, container := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
		for _, mount := range container.VolumeMounts {
			if _, found := volumes[mount.Name]; !found {
				t.Errorf("container %s mounts %s, which is no volume", container.Name, mount.Name)
			}
			volumes[mount.Name] = true
		}
	}
	for name, used := range volumes {
		if !used {
			t.Errorf("volume %s is not mounted", name)
		}
	}
}

func TestRefuses(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*ironic.Config)
		want   string
	}{
		"no cluster": {
			reason: "the clusterID identifies conductors", want: "clusterID is empty", change: func(c *ironic.Config) { c.ClusterID = "" },
		},
		"no address": {
			reason: "Ironic would listen on the address of the node", want: "there is no VIP",
			change: func(c *ironic.Config) { c.VirtualIPs = nil },
		},
		"no guard": {
			reason: "there is no default", want: "image of the guard is empty",
			change: func(c *ironic.Config) { c.Images.Guard = "" },
		},
		"no port": {
			reason: "port 0 means any port", want: "all three are required", change: func(c *ironic.Config) { c.Ports.Image = 0 },
		},
		"kubelet without kubeconfig": {
			reason: "the guard could not read its Node", want: `path "" of the kubelet is not an absolute path`,
			change: func(c *ironic.Config) { c.Kubelet = &ironic.Kubelet{} },
		},
		"kubelet on top of the state": {
			reason: "the guard could not write its state", want: `path "/run" of the kubelet overlaps with /run/metal3-ironic`,
			change: func(c *ironic.Config) { c.Kubelet.Directories = []string{"/run"} },
		},
		"kubelet in the files": {
			reason: "the files of the node are read-only", want: "overlaps with /etc/kubernetes/metal3-ironic",
			change: func(c *ironic.Config) { c.Kubelet.Files = []string{"/etc/kubernetes/metal3-ironic/tls/ca.crt"} },
		},
		"kubelet instead of keepalived": {
			reason: "the guard would not find its programs", want: `path "/usr/sbin" of the kubelet overlaps with /usr`,
			change: func(c *ironic.Config) { c.Kubelet.Directories = []string{"/usr/sbin"} },
		},
		"kubelet twice": {
			reason: "no pod has two mounts at one path", want: "is listed twice",
			change: func(c *ironic.Config) { c.Kubelet.Files = []string{ironic.KubeconfigOfKubeadm} },
		},
		"range of another family": {
			reason: "DHCP requires a VIP of the same family", want: "has no VIP of its family",
			change: func(c *ironic.Config) { c.DHCP = dhcp6() },
		},
		"families mixed": {
			reason: "one range, one family", want: "are not of one family",
			change: func(c *ironic.Config) { c.DHCP.DNS = dhcp6().DNS },
		},
		"range outside": {
			reason: "dnsmasq answers no client", want: "is not in 172.22.0.0/24",
			change: func(c *ironic.Config) { c.DHCP.End = netip.MustParseAddr("172.22.1.1") },
		},
		"range backwards": {
			reason: "dnsmasq does not start", want: "swap them",
			change: func(c *ironic.Config) { c.DHCP.Begin, c.DHCP.End = c.DHCP.End, c.DHCP.Begin },
		},
		"own address in the range": {
			reason: "dnsmasq would offer it to a client", want: "contains the VIP 172.22.0.2",
			change: func(c *ironic.Config) { c.DHCP.Begin = netip.MustParseAddr("172.22.0.1") },
		},
		"short lease": {
			reason: "dnsmasq raises it to two minutes", want: "use at least 2m0s",
			change: func(c *ironic.Config) { c.DHCP.LeaseTime = time.Second },
		},
		"gateway over IPv6": {
			reason: "DHCPv6 has no such option", want: "cannot be handed out over IPv6",
			change: func(c *ironic.Config) {
				c.VirtualIPs, c.DHCP = []netip.Addr{netip.MustParseAddr("fd00:172:22::2")}, dhcp6()
				c.DHCP.Gateway = netip.MustParseAddr("fd00:172:22::1")
			},
		},
		"large network of IPv6": {
			reason: "dnsmasq rejects it", want: "use a prefix of 64 or longer",
			change: func(c *ironic.Config) {
				c.VirtualIPs, c.DHCP = []netip.Addr{netip.MustParseAddr("fd00:172:22::2")}, dhcp6()
				c.DHCP.Network = netip.MustParsePrefix("fd00:172:22::/48")
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := least()
			config.DHCP, config.Kubelet = dhcp4(), ironic.KubeletOfKubeadm()
			c.change(&config)
			pods, podsErr := ironic.Pods(config)
			deployment, deploymentErr := ironic.Deployment(config, ironic.Management{Name: "ironic"})
			for _, err := range []error{podsErr, deploymentErr} {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: want an error with %q, got %v", c.reason, c.want, err)
				}
			}
			if pods != nil || deployment != nil {
				t.Errorf("%s: something was rendered", c.reason)
			}
		})
	}
}

// TestFastTrack: only hosts that Ironic works on have agents, unless an option of the user says otherwise.
func TestFastTrack(t *testing.T) {
	config := full()
	config.Settings.Options = []ironic.Option{{Group: "deploy", Name: "fast_track", Value: "true"}}
	for _, container := range bothSides(t, config) {
		if container.Name != "ironic" && container.Name != "httpd" {
			continue
		}
		values := map[string]string{}
		for _, variable := range container.Env {
			values[variable.Name] = variable.Value
		}
		got := [2]string{values["IRONIC_FAST_TRACK"], values["OS_DEPLOY__FAST_TRACK"]}
		if diff := cmp.Diff([2]string{"false", "true"}, got); diff != "" {
			t.Errorf("container %s: default of the pods, option of the user: -want +got:\n%s", container.Name, diff)
		}
	}
}

// TestFewMounts: the DHCP server, which runs as root and answers any machine, reads no credentials and writes only its
// leases. It reads the folder with the name of the interface, because the guard replaces the file. The exporter, which
// requires no password, reads only the folder with the data of the sensors.
func TestFewMounts(t *testing.T) {
	chosen := full()
	chosen.Interface, chosen.DHCP = "", dhcp6()
	for name, config := range map[string]ironic.Config{"full": full(), "chosen": chosen} {
		want := map[string][]string{
			"dnsmasq": {
				"node:dnsmasq.conf /etc/kubernetes/metal3-ironic/dnsmasq.conf ro", "state:dhcp /run/metal3-ironic/dhcp rw",
				"tools: /tools ro", "shared:custom_ipxe_firmware /shared/custom_ipxe_firmware ro",
			},
			"exporter": {"shared: /shared rw"},
		}
		if name == "chosen" {
			want["dnsmasq"] = slices.Insert(want["dnsmasq"], 1, "state: /run/metal3-ironic ro")
		}
		for _, container := range bothSides(t, config) {
			var got []string
			for _, mount := range container.VolumeMounts {
				access := map[bool]string{true: "ro", false: "rw"}[mount.ReadOnly]
				got = append(got, fmt.Sprintf("%s:%s %s %s", mount.Name, mount.SubPath, mount.MountPath, access))
			}
			if expected, found := want[container.Name]; found {
				if diff := cmp.Diff(expected, got); diff != "" {
					t.Errorf("%s: mounts of container %s: -want +got:\n%s", name, container.Name, diff)
				}
			}
		}
	}
}

// bothSides returns the containers of the static pods and of the Deployment.
func bothSides(t *testing.T, config ironic.Config) []corev1.Container {
	t.Helper()
	pods, err := ironic.Pods(config)
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := ironic.Deployment(config, ironic.Management{Name: "ironic", Namespace: "ironic", Secret: "files"})
	if err != nil {
		t.Fatal(err)
	}
	specs := []corev1.PodSpec{deployment.Spec.Template.Spec}
	for _, pod := range pods {
		specs = append(specs, pod.Spec)
	}
	var containers []corev1.Container
	for _, spec := range specs {
		containers = slices.Concat(containers, spec.InitContainers, spec.Containers)
	}
	return containers
}

func TestDNSMasq(t *testing.T) {
	bare := least()
	bare.DHCP = dhcp4()
	bare.DHCP.Gateway, bare.DHCP.DNS, bare.DHCP.LeaseTime = netip.Addr{}, nil, 0
	v6 := full()
	v6.DHCP = dhcp6()
	for name, config := range map[string]ironic.Config{"dhcp4": full(), "dhcp4-least": bare, "dhcp6": v6} {
		t.Run(name, func(t *testing.T) {
			content, err := ironic.DNSMasq(config)
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, filepath.Join(name, "dnsmasq.conf"), content)
			verdict.DNSMasq(t, content)
		})
	}
	if content, err := ironic.DNSMasq(least()); err == nil || content != nil {
		t.Errorf("without a DHCP server there is %q and %v", content, err)
	}
}

// TestFollowsWhatIsPrepared: the web server of the Deployment reads changes of all files that the pod starts with.
func TestFollowsWhatIsPrepared(t *testing.T) {
	deployment, err := ironic.Deployment(full(), ironic.Management{Name: "ironic", Secret: "files"})
	if err != nil {
		t.Fatal(err)
	}
	spec := deployment.Spec.Template.Spec
	copies := map[string][]string{}
	for _, container := range append(spec.InitContainers, spec.Containers...) {
		for _, argument := range container.Command {
			if strings.HasPrefix(argument, "--copy=") {
				copies[container.Name] = append(copies[container.Name], argument)
			}
		}
	}
	if diff := cmp.Diff(copies["prepare"], copies["httpd"]); diff != "" || len(copies["httpd"]) == 0 {
		t.Errorf("copies: -prepare +httpd:\n%s", diff)
	}
	if group := spec.SecurityContext.FSGroup; group == nil || *group != 994 {
		t.Errorf("the web server cannot read the Secret: fsGroup is %v", group)
	}
}
