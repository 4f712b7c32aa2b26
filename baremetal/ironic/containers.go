package ironic

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// loopback is where the kubelet finds the services of a pod on the network of the node: the address of the node is not
// known to whoever renders the pod, and not always up.
const loopback = "127.0.0.1"

// vip is the guard with keepalived.
func (c Config) vip() part {
	// It uses far less. On a busy node the request is what gives keepalived its turn in time: a holder that is
	// silent for three advertisements loses the address, and Ironic its database.
	guard := c.container("guard", c.Images.Guard, "100m", "24Mi")
	guard.Command = []string{
		GuardProgram, "run", "--settings=" + onNode(SettingsFile), "--cache=" + CacheDirectory,
		"--listen=" + c.Settings.guardListens(),
	}
	guard.Env = []corev1.EnvVar{nodeName()}
	guard.SecurityContext = asRoot("NET_ADMIN", "NET_BROADCAST", "NET_RAW")
	guard.VolumeMounts = []corev1.VolumeMount{
		nodeMount(), stateMount(), {Name: cacheVolume, MountPath: CacheDirectory},
		{Name: sharedVolume, MountPath: SharedDirectory, ReadOnly: true},
	}
	guard.LivenessProbe = every(10, 3, 5, httpGet("/livez", GuardPort, corev1.URISchemeHTTP))
	guard.ReadinessProbe = every(5, 1, 2, httpGet("/readyz", GuardPort, corev1.URISchemeHTTP))
	result := part{volumes: []string{cacheVolume, nodeVolume, sharedVolume, stateVolume}, grace: 10, nodeCritical: true}
	for _, place := range c.Kubelet.places() {
		guard.VolumeMounts = append(guard.VolumeMounts,
			corev1.VolumeMount{Name: place.volume, MountPath: place.path, ReadOnly: true})
		result.volumes = append(result.volumes, place.volume)
	}
	result.containers = []corev1.Container{guard}
	return result
}

// managementVIP is the guard of the management side, which is told what was handed over. That lies below the state
// because the files of the node are read-only: no mount can be made there.
func (c Config) managementVIP() part {
	result := c.vip()
	mounts := &result.containers[0].VolumeMounts
	*mounts = append(*mounts, corev1.VolumeMount{Name: handoverVolume, MountPath: HandoverDirectory, ReadOnly: true})
	result.volumes = append(result.volumes, handoverVolume)
	return result
}

// ironic is Ironic with its web server.
func (c Config) ironic() part {
	result := part{
		tools: true,
		prepare: append([]string{
			"--directory=/shared", "--directory=/shared/html", "--directory=/shared/html/images", "--directory=/shared/tmp",
		}, c.copies()...),
		containers: []corev1.Container{c.conductor(), c.httpd(), c.ramdiskLogs()},
		volumes:    []string{dataVolume, nodeVolume, privateVolume, sharedVolume, stateVolume, toolsVolume},
		grace:      30,
	}
	if c.Settings.Exporter != nil {
		result.containers = append(result.containers, c.exporter())
	}
	if !c.Ramdisk.Present {
		result.init = []corev1.Container{c.download()}
	}
	return result
}

// conductor is Ironic itself, API and conductor in one process. It runs behind a gate for one term of the address: when
// another node has held the address, what Ironic knows of the hosts is out of date, and the next container begins
// without it. An Ironic that ends in its term starts again with its database, which the image would empty. Each start
// appends to the CA bundle for ramdisks that boot over iPXE, so that is deleted before.
func (c Config) conductor() corev1.Container {
	container := c.ironicContainer("ironic", "100m", "320Mi", "/bin/runironic")
	if !c.Cold {
		// A cold one that waits for the address does not answer, and is as ready as it can be.
		container.ReadinessProbe = every(10, 3, 5, httpGet("/v1", c.Ports.API, corev1.URISchemeHTTPS))
	}
	terms := stateMount()
	terms.ReadOnly = true
	container.VolumeMounts = append(container.VolumeMounts, terms, toolsMount())
	gate := []string{tool, "gate", "--until-lost", "--state=" + StateDirectory}
	for _, left := range leftovers() {
		gate = append(gate, "--sweep="+left)
	}
	gate = append(gate, "--renew=/shared/html/ipa-cacert-bundle", "--again=IRONIC_SKIP_DBSYNC=true")
	if c.Cold {
		gate = append(gate, "--while-vip")
	}
	container.Command = slices.Concat(gate, c.addressFlags(), []string{"--"}, container.Command)
	return container
}

// leftovers are patterns of what an Ironic that is killed leaves in the shared folder: files of deployments and
// virtual media of hosts, which an Ironic with an empty database never deletes, what their sensors said, which the
// exporter would go on to serve, and logs of ramdisks that arrived while nothing printed them. Its caches of images are
// kept.
func leftovers() []string {
	return []string{
		"/shared/tmp/*", "/shared/html/tmp/*", "/shared/html/redfish/*", "/shared/html/ilo/*",
		"/shared/html/????????-????-????-????-????????????", "/shared/ironic_prometheus_exporter/*",
		"/shared/log/ironic/deploy/*",
	}
}

// httpd serves images, and the API with TLS. By default, the API writes what is meant for debugging into the log.
func (c Config) httpd() corev1.Container {
	container := c.ironicContainer("httpd", "20m", "64Mi", "/bin/runhttpd")
	container.Env = append(container.Env, corev1.EnvVar{Name: "IRONIC_HTTPD_LOGLEVEL", Value: "warn"})
	listens := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: loopback, Port: port(c.Ports.Image)}}
	container.ReadinessProbe = every(10, 3, 5, listens)
	container.LivenessProbe = every(30, 6, 5, listens)
	return container
}

// managementIronic is Ironic with a web server that follows the files: a Secret may change while the pod runs. Files of
// a node belong to root, and do not change.
func (c Config) managementIronic() part {
	result := c.ironic()
	result.groups = true
	isHTTPD := func(c corev1.Container) bool { return c.Name == "httpd" }
	httpd := &result.containers[slices.IndexFunc(result.containers, isHTTPD)]
	follow := append([]string{tool, "follow"}, c.copies()...)
	follow = append(follow,
		"--certificate="+onNode(CertificateFile), "--key="+onNode(KeyFile), "--authority="+onNode(AuthorityFile),
		"--passwords="+onNode(HtpasswdFile)+":"+passwordFile, "--")
	httpd.Command = append(follow, httpd.Command...)
	httpd.VolumeMounts = append(httpd.VolumeMounts,
		nodeMount(), corev1.VolumeMount{Name: privateVolume, MountPath: private}, toolsMount())
	return result
}

// ramdiskLogs prints the logs that Ironic collects from ramdisks, and deletes each as soon as Ironic has written it. It
// does not see those that are there before it starts.
func (c Config) ramdiskLogs() corev1.Container {
	container := c.container("ramdisk-logs", c.Images.Ironic, "5m", "32Mi")
	container.Command = []string{"/bin/runlogwatch.sh"}
	container.SecurityContext = asIronic()
	container.VolumeMounts = []corev1.VolumeMount{sharedMount()}
	return container
}

// download fetches kernel and ramdisk where one is missing or damaged. Files from an earlier boot are used: a node must
// come back without a network. The downloader would ask the server for a newer version, and fails when there is none.
func (c Config) download() corev1.Container {
	const images = "/shared/html/images/"
	container := c.container("download", c.Images.Downloader, "20m", "64Mi")
	container.Command = []string{
		tool, "download", "--image=" + images + KernelFile, "--image=" + images + RamdiskFile,
		"--stale=" + images + downloaderTag, "--stale=" + images + downloaderFolders, "--scratch=/shared/tmp",
		"--record=" + downloadRecord,
	}
	for _, sum := range []string{c.Ramdisk.KernelChecksum, c.Ramdisk.RamdiskChecksum} {
		if sum != "" {
			container.Command = append(container.Command, "--sha256="+sum)
		}
	}
	container.Command = append(container.Command, "--", downloaderProgram)
	if c.Ramdisk.BaseURL != "" {
		container.Env = append(container.Env, corev1.EnvVar{Name: "IPA_BASEURI", Value: c.Ramdisk.BaseURL})
	}
	if c.Ramdisk.Branch != "" {
		container.Env = append(container.Env, corev1.EnvVar{Name: "IPA_BRANCH", Value: c.Ramdisk.Branch})
	}
	container.Env = append(container.Env, c.proxy()...)
	container.SecurityContext = asIronic()
	container.VolumeMounts = []corev1.VolumeMount{sharedMount(), toolsMount()}
	if c.Settings.TrustedAuthorities {
		container.Env = append(container.Env, corev1.EnvVar{Name: "CURL_CA_BUNDLE", Value: trustedAuthorities})
		container.VolumeMounts = append(container.VolumeMounts, certificatesMount())
	}
	return container
}

// ironicContainer has the settings that Ironic and its web server must agree on.
func (c Config) ironicContainer(name, cpu, memory, command string) corev1.Container {
	container := c.container(name, c.Images.Ironic, cpu, memory)
	container.Command = []string{command}
	container.Env = c.environment()
	container.SecurityContext = asIronic()
	container.VolumeMounts = []corev1.VolumeMount{
		{Name: privateVolume, MountPath: "/auth", SubPath: "auth", ReadOnly: true},
		certificatesMount(),
		sharedMount(),
	}
	return container
}

// environment is what the scripts of the image read. The name of the conductor refers to the one of the node, so the
// order counts.
func (c Config) environment() []corev1.EnvVar {
	api := strconv.Itoa(int(c.Ports.API))
	variables := []corev1.EnvVar{
		nodeName(),
		{Name: "IRONIC_CONDUCTOR_HOST", Value: c.ClusterID + "-$(NODE_NAME)"},
		// With PROVISIONING_IP it would wait for the address, which waits for a healthy Ironic.
		{Name: "IRONIC_IP", Value: c.VirtualIPs[0].String()},
	}
	if c.Interface != "" {
		variables = append(variables, corev1.EnvVar{Name: "PROVISIONING_INTERFACE", Value: c.Interface})
	}
	variables = append(variables, []corev1.EnvVar{
		{Name: "LISTEN_ALL_INTERFACES", Value: "true"},
		{Name: "IRONIC_ACCESS_PORT", Value: api},
		{Name: "IRONIC_LISTEN_PORT", Value: api},
		{Name: "HTTP_PORT", Value: strconv.Itoa(int(c.Ports.Image))},
		{Name: "VMEDIA_TLS_PORT", Value: strconv.Itoa(int(c.Ports.ImageTLS))},
		// The web server terminates TLS and checks credentials; Ironic listens on a socket in the shared folder.
		{Name: "IRONIC_REVERSE_PROXY_SETUP", Value: "true"},
		{Name: "IRONIC_PRIVATE_PORT", Value: "unix"},
		{Name: "IRONIC_USE_MARIADB", Value: "false"},
		{Name: "IRONIC_EXPOSE_JSON_RPC", Value: "false"},
		// A standby does nothing, and a holder has at most some hundreds of hosts.
		{Name: "NUMWORKERS", Value: "1"},
	}...)
	return slices.Concat(variables, c.Ramdisk.environment(), c.Settings.environment(), c.proxy())
}

// environment is how the ramdisk is booted.
func (r Ramdisk) environment() []corev1.EnvVar {
	var variables []corev1.EnvVar
	if r.KernelParameters != "" {
		variables = append(variables, corev1.EnvVar{Name: "IRONIC_KERNEL_PARAMS", Value: escaped(r.KernelParameters)})
	}
	if r.SSHKey != "" {
		variables = append(variables, corev1.EnvVar{Name: "IRONIC_RAMDISK_SSH_KEY", Value: escaped(r.SSHKey)})
	}
	return variables
}

// dnsmasq is the DHCP server. It runs as root with three rights: the image gives the program rights of its own, but not
// every image does.
func (c Config) dnsmasq() part {
	container := c.container("dnsmasq", c.Images.Ironic, "5m", "16Mi")
	gate := append([]string{tool, "gate", "--while-vip"}, c.addressFlags()...)
	container.Command = append(gate, "--", "/usr/sbin/dnsmasq", "--no-daemon", "--conf-file="+onNode(DHCPFile))
	if c.Interface == "" {
		container.Command = append(container.Command, "--interface="+interfaceMark)
		if c.DHCP.Begin.Is6() {
			container.Command = append(container.Command, "--ra-param="+interfaceMark+routerIsNone)
		}
	}
	container.SecurityContext = asRoot("NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW")
	container.VolumeMounts = []corev1.VolumeMount{nodeMount(), stateMount(), toolsMount()}
	return part{
		tools:      true,
		containers: []corev1.Container{container},
		volumes:    []string{nodeVolume, stateVolume, toolsVolume},
		grace:      5,
	}
}

func nodeName() corev1.EnvVar {
	return corev1.EnvVar{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"},
	}}
}

func certificatesMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: privateVolume, MountPath: "/certs", SubPath: "certs", ReadOnly: true}
}

func sharedMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: sharedVolume, MountPath: "/shared"}
}

func port(number int32) intstr.IntOrString {
	return intstr.FromInt32(number)
}

func httpGet(path string, number int32, scheme corev1.URIScheme) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Host: loopback, Path: path, Port: port(number), Scheme: scheme,
	}}
}

// every makes a probe of its period, the failures in a row that count, and its time limit, in seconds.
func every(period, failures, limit int32, handler corev1.ProbeHandler) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: handler, PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: limit,
	}
}
