package ironic_test

import (
	gocmp "cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// source is a checkout of the image of Ironic.
type source struct {
	t      *testing.T
	folder string
}

// read returns a file of the checkout.
func (s source) read(name string) string {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.folder, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(content)
}

// version is the major version that the folder has in its name, such as v38. A folder without one is the newest.
func (s source) version() string {
	return gocmp.Or(regexp.MustCompile(`^v\d+`).FindString(filepath.Base(s.folder)), "v38")
}

// upstream runs a test with the image of Ironic that IRONIC_IMAGE_SOURCE names, and with the versions beside it.
func upstream(t *testing.T, test func(image source)) {
	t.Helper()
	named := os.Getenv("IRONIC_IMAGE_SOURCE")
	if named == "" {
		t.Skip("set IRONIC_IMAGE_SOURCE to a folder with scripts and ironic-config of metal3-io/ironic-image")
	}
	beside, err := filepath.Glob(filepath.Join(filepath.Dir(named), "v[0-9]*"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(beside, filepath.Clean(named)) {
		beside = []string{named}
	}
	for _, folder := range beside {
		t.Run(filepath.Base(folder), func(t *testing.T) { test(source{t, folder}) })
	}
}

// TestDHCPOffersTheFirmwareOfTheImage compares the names of boot programs with those in the DHCP settings of the image.
func TestDHCPOffersTheFirmwareOfTheImage(t *testing.T) {
	upstream(t, dhcpOffersTheFirmwareOfTheImage)
}

func dhcpOffersTheFirmwareOfTheImage(image source) {
	t := image.t
	template := image.read("ironic-config/dnsmasq.conf.j2")
	base := "snponly"
	if found := regexp.MustCompile(`SNP_BASENAME:-(\w+)`).FindStringSubmatch(image.read("scripts/ironic-common.sh")); found != nil {
		base = found[1]
	}
	template = strings.ReplaceAll(template, "{{ env.SNP_BASENAME }}", base)
	v6 := full()
	v6.DHCP = dhcp6()
	var ours []byte
	for _, config := range []ironic.Config{full(), v6} {
		content, err := ironic.DNSMasq(config)
		if err != nil {
			t.Fatal(err)
		}
		ours = append(ours, content...)
	}
	if diff := cmp.Diff(firmwareIn(template), firmwareIn(string(ours))); diff != "" {
		t.Errorf("names of boot programs: -image +ours:\n%s", diff)
	}
	pods, err := ironic.Pods(full())
	if err != nil {
		t.Fatal(err)
	}
	common := image.read("scripts/ironic-common.sh")
	if found := regexp.MustCompile(`IPXE_CUSTOM_FIRMWARE_DIR:-([^}]+)}`).FindStringSubmatch(common); found != nil {
		if command := pods[0].Spec.Containers[0].Command; !slices.Contains(command, "--folder="+found[1]) {
			t.Errorf("the boot programs of the node are in %s, and the command of the DHCP server is %q", found[1], command)
		}
	}
}

func firmwareIn(text string) []string {
	names := regexp.MustCompile(`[\w-]+\.(efi|kpxe)`).FindAllString(text, -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// commandOfIronic is the command of the container of Ironic.
func commandOfIronic(t *testing.T) []string {
	t.Helper()
	pods, err := ironic.Pods(least())
	if err != nil {
		t.Fatal(err)
	}
	return pods[0].Spec.Containers[0].Command
}

// TestSweepsWhatTheImageLeaves expects that the gate deletes files that Ironic of the image writes and never reuses.
func TestSweepsWhatTheImageLeaves(t *testing.T) {
	upstream(t, func(image source) {
		template, script := image.read("ironic-config/ironic.conf.j2"), image.read("scripts/runironic")
		for text, flags := range map[string][2]string{
			`(?m)^tempdir = (\S+)$`:                {template, "--sweep=%s/*"},
			`(?m)^images_path = (\S+)$`:            {template, "--sweep=%s/*"},
			`(?m)^location = (\S+)$`:               {template, "--sweep=%s/*"},
			`(?m)^deploy_logs_local_path = (\S+)$`: {template, "--sweep=%s/*"},
			// Ironic downloads into folders that tempfile.mkdtemp creates.
			`(?m)^instance_master_path = (\S+)$`:  {template, "--sweep=%s/tmp*"},
			`(?m)^tftp_master_path = (\S+)$`:      {template, "--sweep=%s/tmp*"},
			`(?m)^iso_master_path = (\S+)$`:       {template, "--sweep=%s/tmp*"},
			`generate_cacert_bundle_initrd (\S+)`: {script, "--renew=%s"},
		} {
			found := regexp.MustCompile(text).FindStringSubmatch(flags[0])
			if found == nil || !slices.Contains(commandOfIronic(image.t), fmt.Sprintf(flags[1], found[1])) {
				image.t.Errorf("%q, found by %s, is not deleted", found, text)
			}
		}
		// Another container deletes the logs of ramdisks that are written while it runs.
		watch := image.read("scripts/runlogwatch.sh")
		for _, line := range []string{`LOG_DIR="/shared/log/ironic/deploy"`, `rm -f "${FILEPATH}"`, `== "closed"`} {
			if !strings.Contains(watch, line) {
				image.t.Errorf("runlogwatch.sh lacks %s", line)
			}
		}
	})
}

// TestDatabaseOfTheImage expects that the gate checks the disk of the folder in which the image has the database, and
// that Ironic may write there.
func TestDatabaseOfTheImage(t *testing.T) {
	upstream(t, func(image source) {
		common := image.read("scripts/ironic-common.sh")
		data := regexp.MustCompile(`(?m)^CUSTOM_DATA_DIR="\$\{CUSTOM_DATA_DIR:-(\S+)\}"$`).FindStringSubmatch(common)
		below := regexp.MustCompile(`(?m)^export IRONIC_DB_DIR="\$\{CUSTOM_DATA_DIR\}(\S+)"$`).FindStringSubmatch(common)
		if data == nil || below == nil || !slices.Contains(commandOfIronic(image.t), "--database="+data[1]+below[1]) {
			image.t.Errorf("the database is in %q below %q, and the command is %q", below, data, commandOfIronic(image.t))
		}
		if owner := `chown "${IRONIC_USER}":"${IRONIC_GROUP}" /data`; !strings.Contains(image.read("configure-nonroot.sh"), owner) {
			image.t.Errorf("configure-nonroot.sh lacks %s", owner)
		}
		for _, name := range []string{"CUSTOM_DATA_DIR", "IRONIC_DB_DIR"} {
			if variablesOfThePods(image.t)[name] {
				image.t.Errorf("the pods set %s", name)
			}
		}
	})
}

// TestSocketOfTheImage expects that the guard probes the socket of the image, and a path that requires no password.
func TestSocketOfTheImage(t *testing.T) {
	upstream(t, socketOfTheImage)
}

func socketOfTheImage(image source) {
	t := image.t
	socket := "unix_socket = /shared/" + ironic.SocketFile + "\n"
	if template := image.read("ironic-config/ironic.conf.j2"); !strings.Contains(template, socket) {
		t.Errorf("the image does not have %q", socket)
	}
	open := regexp.MustCompile(`<Location ~ "\^/\(v1/\?\)\?\$" >\s+Require all granted`)
	if template := image.read("ironic-config/httpd-ironic-api.conf.j2"); !open.MatchString(template) {
		t.Error("the web server of the image requires a password on /v1")
	}
}

// TestProbeOfTheImage expects that the script of the web server writes the file that the kubelet requests into the folder
// that the web server serves on the image port, unless it has a certificate for iPXE, which no pod has.
func TestProbeOfTheImage(t *testing.T) {
	upstream(t, func(image source) {
		pods, err := ironic.Pods(full())
		if err != nil {
			image.t.Fatal(err)
		}
		containers := pods[1].Spec.Containers
		httpd := containers[slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "httpd" })]
		get := httpd.LivenessProbe.HTTPGet
		for file, texts := range map[string][]string{
			"scripts/runhttpd": {"render_j2_config /templates/inspector.ipxe.j2 /shared/html" + get.Path + "\n"},
			"scripts/tls-common.sh": {
				"export IPXE_CERT_FILE=/certs/ipxe/tls.crt\n", `if [[ -f "$IPXE_CERT_FILE" ]]; then` + "\n"},
			"ironic-config/httpd.conf.j2": {`DocumentRoot "/shared/html"`, `<Directory "/shared/html">
{%- if env.IPXE_TLS_SETUP | lower == "true" %}
    Options Indexes FollowSymLinks
    Require all denied
{%- else %}
    Options Indexes FollowSymLinks
    Require all granted
{%- endif %}
</Directory>`},
		} {
			for _, text := range texts {
				if !strings.Contains(image.read(file), text) {
					image.t.Errorf("%s lacks %q", file, text)
				}
			}
		}
		for _, container := range bothSides(image.t, full()) {
			if command := strings.Join(container.Command, " "); strings.Contains(command, "/certs/ipxe") {
				image.t.Errorf("container %s has a certificate for iPXE: %s", container.Name, command)
			}
		}
	})
}

// TestAuthoritiesOfTheImage expects that Ironic of the image verifies BMCs with all files of a folder, and image
// servers with the file that a variable names.
func TestAuthoritiesOfTheImage(t *testing.T) {
	upstream(t, authoritiesOfTheImage)
}

func authoritiesOfTheImage(image source) {
	t := image.t
	pods, err := ironic.Pods(full())
	if err != nil {
		t.Fatal(err)
	}
	prepare := strings.Join(pods[1].Spec.InitContainers[slices.IndexFunc(pods[1].Spec.InitContainers,
		func(c corev1.Container) bool { return c.Name == "prepare" })].Command, "\n")
	scripts := image.read("scripts/tls-common.sh")
	template := image.read("ironic-config/ironic.conf.j2")
	found := regexp.MustCompile(`(?m)^export BMC_CACERTS_PATH=(\S+)$`).FindStringSubmatch(scripts)
	if found == nil || !strings.Contains(prepare, ":/private"+found[1]+"/") {
		t.Errorf("the image reads CAs of BMCs from %q, prepare is:\n%s", found, prepare)
	}
	for _, line := range []string{
		`cat "${BMC_CACERTS_PATH}"/* > "${BMC_CACERT_FILE}"`, `copy_atomic "${WEBSERVER_CACERT_FILE}" "${IPA_CACERT_FILE}"`,
	} {
		if !strings.Contains(scripts, line) {
			t.Errorf("tls-common.sh of the image lacks %s", line)
		}
	}
	for _, line := range []string{
		"verify_ca = {{ env.BMC_CACERT_FILE }}\n", "webserver_verify_ca =  {{ env.WEBSERVER_CACERT_FILE }}\n",
		"api_ca_file = {{ env.IPA_CACERT_FILE }}\n",
	} {
		if !strings.Contains(template, line) {
			t.Errorf("ironic.conf.j2 of the image lacks %s", line)
		}
	}
}

// TestRamdiskAcceptsAnyCertificate: the image boots ramdisks that accept any certificate. The ramdisk uses the last value
// of a parameter, so the parameters of the user can change that. The documentation of the CAs must say so.
func TestRamdiskAcceptsAnyCertificate(t *testing.T) {
	documentation, err := os.ReadFile("../../docs/spec/metal3cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"`spec.ironic.tls.trustedCABundle`", "`tls.trustedCABundle`"} {
		_, row, _ := strings.Cut(string(documentation), "| "+name+" |")
		if row, _, _ = strings.Cut(row, "\n"); !strings.Contains(row, "ipa-insecure=0") {
			t.Errorf("the row of %s does not say how the ramdisk verifies: %s", name, row)
		}
	}
	upstream(t, func(image source) {
		order := regexp.MustCompile(`ipa-insecure=\{\{ env\.IRONIC_IPA_INSECURE \| default\('1'\) \}\} .*\{\{ env\.IRONIC_KERNEL_PARAMS`)
		for name, want := range map[string]int{"ironic.conf.j2": 2, "inspector.ipxe.j2": 1} {
			if got := len(order.FindAllString(image.read("ironic-config/"+name), -1)); got != want {
				image.t.Errorf("%s has %d kernel command lines with ipa-insecure before the parameters of the user, want %d", name, got, want)
			}
		}
		if variablesOfThePods(image.t)["IRONIC_IPA_INSECURE"] {
			image.t.Error("the pods set IRONIC_IPA_INSECURE")
		}
	})
}

// TestExternalAddressOfTheImage expects that the image writes the external address into URLs without brackets.
func TestExternalAddressOfTheImage(t *testing.T) {
	upstream(t, func(image source) {
		for _, url := range []string{
			"${IRONIC_SCHEME}://${IRONIC_EXTERNAL_IP}:${IRONIC_ACCESS_PORT}", "https://${IRONIC_EXTERNAL_IP}:${VMEDIA_TLS_PORT}",
		} {
			if !strings.Contains(image.read("scripts/configure-ironic.sh"), url) {
				image.t.Errorf("configure-ironic.sh lacks %s", url)
			}
		}
	})
}

// row is a row of the table of settings of the images.
type row struct {
	// names are the settings, and files are the scripts that read them.
	names, files []string
	versions     string
}

// documented reads the table.
func documented(t *testing.T) []row {
	t.Helper()
	documentation, err := os.ReadFile("../../docs/ironic-endpoint.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(documentation), "| Set in the pods |")
	table, _, _ = strings.Cut(table, "\n\n")
	quoted := func(text string) []string {
		var found []string
		for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
			found = append(found, match[1])
		}
		return found
	}
	isNoFile := func(word string) bool { return !regexp.MustCompile(`^run|\.(sh|j2)$`).MatchString(word) }
	var rows []row
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			t.Fatalf("the row %q has %d cells, want 4", line, len(cells)-2)
		}
		rows = append(rows, row{
			names: quoted(cells[1]), files: slices.DeleteFunc(quoted(cells[3]), isNoFile), versions: cells[4],
		})
	}
	return rows
}

// TestVariablesOfTheImage expects that the image reads each variable of the pods, in the files and versions of the
// documentation.
func TestVariablesOfTheImage(t *testing.T) { upstream(t, variablesOfTheImage) }

func variablesOfTheImage(image source) {
	readers := image.scripts()
	rows := map[string]row{}
	for _, row := range documented(image.t) {
		for _, name := range row.names {
			rows[name] = row
		}
	}
	for name := range variablesOfThePods(image.t) {
		if isReadElsewhere(name) {
			continue
		}
		row, found := rows[name]
		if !found {
			image.t.Errorf("the documentation has no row for %s", name)
			continue
		}
		reads := regexp.MustCompile(`\b` + name + `\b`).MatchString
		isRead := slices.ContainsFunc(slices.Collect(maps.Values(readers)), reads)
		if strings.Contains(row.versions, image.version()) != isRead {
			image.t.Errorf("%s is read by %s: %v, the documentation says %q", name, image.version(), isRead, row.versions)
		}
		if isRead && !slices.ContainsFunc(row.files, func(file string) bool { return reads(readers[file]) }) {
			image.t.Errorf("none of %q reads %s", row.files, name)
		}
	}
}

// scripts are the scripts and templates of the image, by name.
func (s source) scripts() map[string]string {
	s.t.Helper()
	found := map[string]string{}
	for _, folder := range []string{"scripts", "ironic-config"} {
		files, err := os.ReadDir(filepath.Join(s.folder, folder))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, file := range files {
			found[file.Name()] = s.read(filepath.Join(folder, file.Name()))
		}
	}
	return found
}

// variablesOfThePods are the names of all variables of the containers with the image of Ironic.
func variablesOfThePods(t *testing.T) map[string]bool {
	t.Helper()
	pods, err := ironic.Pods(full())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"IRONIC_SKIP_DBSYNC": true}
	for _, container := range pods[1].Spec.Containers {
		for _, variable := range container.Env {
			names[variable.Name] = true
		}
	}
	return names
}

// isReadElsewhere returns true for variables that the scripts of the image do not name.
func isReadElsewhere(name string) bool {
	switch {
	case name == "NODE_NAME":
		// Only the name of the conductor refers to it.
		return true
	case strings.HasPrefix(name, "OS_"):
		// oslo.config reads them in Ironic itself.
		return true
	case strings.HasPrefix(name, "DEPLOY_"):
		// The scripts name only their beginning. TestImageFindsTheRamdisksOfArchitectures tests them.
		return true
	default:
		// Python and curl read them.
		return strings.HasSuffix(strings.ToLower(name), "_proxy")
	}
}

// TestImageFindsTheRamdisksOfArchitectures runs the function of the image that selects ramdisks, with the files and the
// variables of the pods. Without an own ramdisk for x86_64, these machines get the default one.
func TestImageFindsTheRamdisksOfArchitectures(t *testing.T) {
	upstream(t, func(image source) {
		t := image.t
		const folder = "/shared/html/images"
		function := regexp.MustCompile(`(?ms)^detect_ipa_by_arch\(\)\n\{.*?^\}`).FindString(image.read("scripts/ironic-common.sh"))
		if function == "" {
			t.Fatal("ironic-common.sh has no function detect_ipa_by_arch")
		}
		pods, err := ironic.Pods(full())
		if err != nil {
			t.Fatal(err)
		}
		local := t.TempDir()
		writeDownloads(t, pods, folder, local)
		script := strings.ReplaceAll(function, folder, local) + "\ndetect_ipa_by_arch\n" +
			`printf '%s\n' "$DEPLOY_KERNEL_URL" "$DEPLOY_KERNEL_BY_ARCH" "$DEPLOY_RAMDISK_BY_ARCH"`
		command := exec.CommandContext(t.Context(), "bash", "-euc", script)
		command.Env = deployVariables(t, pods, folder, local)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		got := strings.Fields(strings.ReplaceAll(string(output), local, folder))
		want := []string{"file://" + folder + "/" + ironic.KernelFile}
		for _, kind := range []string{"kernel", "initramfs"} {
			var selected []string
			for _, one := range []struct{ architecture, suffix string }{
				{"aarch64", "_aarch64"}, {"ppc64le", "_ppc64le"}, {"x86_64", ""},
			} {
				selected = append(selected, fmt.Sprintf("%s:file://%s/ironic-python-agent%s.%s",
					one.architecture, folder, one.suffix, kind))
			}
			want = append(want, strings.Join(selected, ","))
		}
		for i := range got {
			// The image lists architectures in any order.
			words := strings.Split(got[i], ",")
			slices.Sort(words)
			got[i] = strings.Join(words, ",")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the image selects (-want, +got):\n%s", diff)
		}
	})
}

// deployVariables returns the variables of the web server of the image that select ramdisks in a folder.
func deployVariables(t *testing.T, pods []*corev1.Pod, folder, local string) []string {
	t.Helper()
	var variables []string
	for _, pod := range pods {
		for _, container := range pod.Spec.Containers {
			for _, variable := range container.Env {
				if container.Name == "httpd" && strings.HasPrefix(variable.Name, "DEPLOY_") {
					variables = append(variables, variable.Name+"="+strings.ReplaceAll(variable.Value, folder, local))
				}
			}
		}
	}
	return variables
}

// writeDownloads creates an empty file for each file that the pods download into a folder of the image.
func writeDownloads(t *testing.T, pods []*corev1.Pod, folder, local string) {
	t.Helper()
	var containers []corev1.Container
	for _, pod := range pods {
		containers = append(containers, pod.Spec.InitContainers...)
	}
	for _, container := range containers {
		for _, argument := range container.Command {
			if name, is := strings.CutPrefix(argument, "--image="+folder); is {
				if err := os.WriteFile(local+name, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
