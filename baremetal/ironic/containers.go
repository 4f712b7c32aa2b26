package ironic

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// loopback is the address for the probes of the kubelet: the address of the node is unknown when the pod is rendered,
// and not always up.
const loopback = "127.0.0.1"

// vip returns the container of the guard with keepalived.
func (c Config) vip() part {
	// The guard uses much less CPU. On a busy node, keepalived requires this request to run in time: a holder that misses
	// its advertisements loses the VIP, and Ironic its database.
	guard := c.container("guard", c.Images.Guard, "100m", "32Mi")
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

// managementVIP returns the guard of the management side, which also reads the ConfigMap of the handover. Its mount is
// below the state directory, because the files of the node are read-only.
func (c Config) managementVIP() part {
	result := c.vip()
	mounts := &result.containers[0].VolumeMounts
	*mounts = append(*mounts, corev1.VolumeMount{Name: handoverVolume, MountPath: HandoverDirectory, ReadOnly: true})
	result.volumes = append(result.volumes, handoverVolume)
	return result
}

// ironic returns Ironic with its web server.
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
		result.init = c.downloads()
	}
	return result
}

// conductor returns the container of Ironic: a master process, and one worker with API and conductor. It runs behind a
// gate for one term of the VIP: when another node has held the VIP, the database is outdated, and the next container
// starts without it. The master starts a worker that ends again. A master that ends in its term starts again with its
// database, which the image would empty. Each start appends to the CA bundle for ramdisks that boot over iPXE, so the
// gate deletes it before.
func (c Config) conductor() corev1.Container {
	container := c.ironicContainer("ironic", "100m", "320Mi", "/bin/runironic")
	if !c.Cold {
		// A cold Ironic that waits for the VIP does not answer, so it has no readiness probe.
		container.ReadinessProbe = every(10, 3, 5, httpGet("/v1", c.Ports.API, corev1.URISchemeHTTPS))
	}
	container.VolumeMounts = append(container.VolumeMounts, readOnly(stateMount()), toolsMount())
	gate := []string{tool, "gate", "--until-lost", "--state=" + StateDirectory}
	for _, left := range leftovers() {
		gate = append(gate, "--sweep="+left)
	}
	gate = append(gate, "--renew=/shared/html/ipa-cacert-bundle", "--again=IRONIC_SKIP_DBSYNC=true",
		"--database="+databaseFolder)
	if c.Cold {
		gate = append(gate, "--while-vip")
	}
	container.Command = slices.Concat(gate, c.addressFlags(), []string{"--"}, container.Command)
	return container
}

// leftovers returns patterns of files of a killed Ironic in the shared folder. An Ironic with an empty database never
// deletes files of deployments and virtual media of hosts. The exporter would serve outdated data of sensors. Logs of
// ramdisks may have arrived while ramdisk-logs did not run. Caches of images stay, without downloads that did not end.
func leftovers() []string {
	return []string{
		"/shared/tmp/*", "/shared/html/tmp/*", "/shared/html/redfish/*", "/shared/html/ilo/*",
		"/shared/html/????????-????-????-????-????????????", "/shared/ironic_prometheus_exporter/*",
		"/shared/log/ironic/deploy/*", "/shared/html/master_images/tmp*", "/shared/html/master_iso_images/tmp*",
		"/shared/tftpboot/master_images/tmp*",
	}
}

// httpd serves images, and the API with TLS. By default, the API logs debug messages. The kubelet restarts a web server
// that serves nothing for ten minutes, because it hangs or clients stall all its workers. Ironic keeps its database.
func (c Config) httpd() corev1.Container {
	container := c.ironicContainer("httpd", "20m", "64Mi", "/bin/runhttpd")
	container.Env = append(container.Env, corev1.EnvVar{Name: "IRONIC_HTTPD_LOGLEVEL", Value: "warn"})
	// The script of the image writes this file before it starts the web server.
	serves := httpGet("/inspector.ipxe", c.Ports.Image, corev1.URISchemeHTTP)
	container.ReadinessProbe = every(10, 3, 5, serves)
	container.LivenessProbe = every(30, 20, 10, serves)
	return container
}

// managementIronic returns Ironic with a web server that reads changed files: a Secret may change while the pod runs.
// Files of a node do not change.
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

// ramdiskLogs prints the logs that Ironic collects from ramdisks, and deletes each log when Ironic has written it. It
// ignores logs that exist before it starts.
func (c Config) ramdiskLogs() corev1.Container {
	container := c.container("ramdisk-logs", c.Images.Ironic, "5m", "32Mi")
	container.Command = []string{"/bin/runlogwatch.sh"}
	container.SecurityContext = asIronic()
	container.VolumeMounts = []corev1.VolumeMount{sharedMount()}
	return container
}

// downloads returns the containers that download the ramdisks. The first one may delete the unpacked archives of the
// others, which then download again.
func (c Config) downloads() []corev1.Container {
	all := []corev1.Container{c.download(downloadContainer, agentFiles, downloaderFolders, c.Ramdisk.Source)}
	for _, other := range c.Ramdisk.Others {
		from := other.Source
		if from.BaseURL == "" {
			from.BaseURL = c.Ramdisk.Source.BaseURL
		}
		name := downloadContainer + "-" + strings.ReplaceAll(other.Architecture, "_", "-")
		container := c.download(name, agentFiles+"_"+other.Architecture, "ipa-"+other.Flavor+"-"+downloaderFolders, from)
		container.Env = append(container.Env,
			corev1.EnvVar{Name: "IPA_ARCH", Value: other.Architecture}, corev1.EnvVar{Name: "IPA_FLAVOR", Value: other.Flavor})
		all = append(all, container)
	}
	return all
}

// download downloads kernel and ramdisk if one is missing or damaged. It keeps files of an earlier boot: a node must
// start without a network. The downloader would request a newer version, and fail without a network. The web server
// does not serve the record with the SHA-256 of the files.
func (c Config) download(name, files, folders string, from RamdiskSource) corev1.Container {
	container := c.container(name, c.Images.Downloader, "20m", "64Mi")
	container.Command = []string{
		tool, "download", "--image=" + imagesFolder + files + ".kernel", "--image=" + imagesFolder + files + ".initramfs",
		"--stale=" + imagesFolder + files + ".headers", "--stale=" + imagesFolder + folders, "--scratch=/shared/tmp",
		"--record=/shared/" + files + ".sha256",
	}
	for _, sum := range []string{from.KernelChecksum, from.RamdiskChecksum} {
		if sum != "" {
			container.Command = append(container.Command, "--sha256="+sum)
		}
	}
	container.Command = append(container.Command, "--", downloaderProgram)
	if from.BaseURL != "" {
		container.Env = append(container.Env, corev1.EnvVar{Name: "IPA_BASEURI", Value: from.BaseURL})
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

// ironicContainer returns a container with the common settings of Ironic and its web server.
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

// environment returns the variables for the scripts of the image. The name of the conductor references the name of the
// node, so the order matters.
func (c Config) environment() []corev1.EnvVar {
	api := strconv.Itoa(int(c.Ports.API))
	variables := []corev1.EnvVar{
		nodeName(),
		{Name: "IRONIC_CONDUCTOR_HOST", Value: c.ClusterID + "-$(NODE_NAME)"},
		// With PROVISIONING_IP, Ironic would wait for the VIP, which requires a healthy Ironic.
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
		// The web server terminates TLS and checks credentials. Ironic listens on a socket in the shared folder.
		{Name: "IRONIC_REVERSE_PROXY_SETUP", Value: "true"},
		{Name: "IRONIC_PRIVATE_PORT", Value: "unix"},
		{Name: "IRONIC_USE_MARIADB", Value: "false"},
		{Name: "IRONIC_EXPOSE_JSON_RPC", Value: "false"},
		// A standby is idle, and a holder has at most some hundreds of hosts.
		{Name: "NUMWORKERS", Value: "1"},
		// With fast track, any machine that reaches the API can get the agent token of a free host.
		{Name: "IRONIC_FAST_TRACK", Value: "false"},
		// BMO turns hosts on and off. By default, Ironic also turns off a host that was off when Ironic registered it, and
		// that has started since: the node of the previous VIP holder, for example.
		{Name: "OS_CONDUCTOR__FORCE_POWER_STATE_DURING_SYNC", Value: "false"},
	}...)
	return slices.Concat(variables, c.Ramdisk.environment(), c.Settings.environment(), c.proxy())
}

// environment returns the variables for the boot of the ramdisk.
func (r Ramdisk) environment() []corev1.EnvVar {
	var variables []corev1.EnvVar
	if r.KernelParameters != "" {
		variables = append(variables, corev1.EnvVar{Name: "IRONIC_KERNEL_PARAMS", Value: escaped(r.KernelParameters)})
	}
	if r.SSHKey != "" {
		variables = append(variables, corev1.EnvVar{Name: "IRONIC_RAMDISK_SSH_KEY", Value: escaped(r.SSHKey)})
	}
	return append(variables, r.defaults()...)
}

// defaults returns the variables that select the ramdisk without architecture for machines of each architecture that
// has none of its own. With one ramdisk of an architecture, inspector.ipxe selects no other ramdisk for UEFI machines.
func (r Ramdisk) defaults() []corev1.EnvVar {
	if len(r.Others) == 0 {
		return nil
	}
	var variables []corev1.EnvVar
	for _, architecture := range []string{"x86_64", "aarch64"} {
		isOwn := func(other OtherRamdisk) bool { return other.Architecture == architecture }
		if slices.ContainsFunc(r.Others, isOwn) {
			continue
		}
		suffix := strings.ToUpper(architecture)
		variables = append(variables,
			corev1.EnvVar{Name: "DEPLOY_KERNEL_URL_" + suffix, Value: "file://" + imagesFolder + KernelFile},
			corev1.EnvVar{Name: "DEPLOY_RAMDISK_URL_" + suffix, Value: "file://" + imagesFolder + RamdiskFile})
	}
	return variables
}

// dnsmasq returns the container of the DHCP server. It runs as root with three capabilities: not every image sets
// capabilities on the program. It mounts no credentials, and writes only its leases. Of the state of the guard it reads
// only the name of the interface, through a mount of the folder: the guard replaces the file.
func (c Config) dnsmasq() part {
	container := c.container("dnsmasq", c.Images.Ironic, "5m", "32Mi")
	gate := []string{tool, "gate", "--while-vip", "--folder=" + customFirmware, "--folder=" + firmware}
	container.Command = append(append(gate, c.addressFlags()...), "--", "/usr/sbin/dnsmasq", "--no-daemon",
		"--tftp-root="+folderMark, "--conf-file="+onNode(DHCPFile))
	container.SecurityContext = asRoot("NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW")
	container.VolumeMounts = []corev1.VolumeMount{
		{Name: nodeVolume, MountPath: onNode(DHCPFile), SubPath: DHCPFile, ReadOnly: true},
	}
	if c.Interface == "" {
		container.Command = append(container.Command, "--interface="+interfaceMark)
		if c.DHCP.Begin.Is6() {
			container.Command = append(container.Command, "--ra-param="+interfaceMark+routerIsNone)
		}
		container.VolumeMounts = append(container.VolumeMounts, readOnly(stateMount()))
	}
	container.VolumeMounts = append(container.VolumeMounts,
		corev1.VolumeMount{Name: stateVolume, MountPath: leasesDirectory, SubPath: leasesFolder}, toolsMount(),
		corev1.VolumeMount{Name: sharedVolume, MountPath: customFirmware, SubPath: FirmwareFolder, ReadOnly: true})
	return part{
		tools:      true,
		containers: []corev1.Container{container},
		volumes:    []string{nodeVolume, sharedVolume, stateVolume, toolsVolume},
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

// every returns a probe with its period, the number of failures, and its time limit, in seconds.
func every(period, failures, limit int32, handler corev1.ProbeHandler) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: handler, PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: limit,
	}
}
