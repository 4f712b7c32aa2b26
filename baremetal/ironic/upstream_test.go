package ironic_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// upstream reads a file of the image of Ironic that is named by IRONIC_IMAGE_SOURCE.
func upstream(t *testing.T, name string) string {
	t.Helper()
	source := os.Getenv("IRONIC_IMAGE_SOURCE")
	if source == "" {
		t.Skip("set IRONIC_IMAGE_SOURCE to a folder with scripts and ironic-config of metal3-io/ironic-image")
	}
	content, err := os.ReadFile(filepath.Join(source, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestDHCPOffersTheFirmwareOfTheImage compares the names of boot programs with those that the image would offer itself.
func TestDHCPOffersTheFirmwareOfTheImage(t *testing.T) {
	template := upstream(t, "ironic-config/dnsmasq.conf.j2")
	base := "snponly"
	if found := regexp.MustCompile(`SNP_BASENAME:-(\w+)`).FindStringSubmatch(upstream(t, "scripts/ironic-common.sh")); found != nil {
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
}

func firmwareIn(text string) []string {
	names := regexp.MustCompile(`[\w-]+\.(efi|kpxe)`).FindAllString(text, -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// TestSweepsWhatTheImageLeaves: the folders that Ironic of the image fills and does not use again are swept.
func TestSweepsWhatTheImageLeaves(t *testing.T) {
	template := upstream(t, "ironic-config/ironic.conf.j2")
	pods, err := ironic.Pods(least())
	if err != nil {
		t.Fatal(err)
	}
	command := pods[0].Spec.Containers[0].Command
	for _, option := range []string{"tempdir", "images_path"} {
		found := regexp.MustCompile(`(?m)^` + option + ` = (\S+)$`).FindStringSubmatch(template)
		if found == nil {
			t.Errorf("the image does not set %s any more", option)
			continue
		}
		if !slices.Contains(command, "--sweep="+found[1]+"/*") {
			t.Errorf("%s, which is %s, is not swept: %q", found[1], option, command)
		}
	}
}

// TestSocketOfTheImage: the guard asks Ironic where the image has it listen, and the web server on a path that is open.
func TestSocketOfTheImage(t *testing.T) {
	socket := "unix_socket = /shared/" + ironic.SocketFile + "\n"
	if template := upstream(t, "ironic-config/ironic.conf.j2"); !strings.Contains(template, socket) {
		t.Errorf("the image does not have %q", socket)
	}
	open := regexp.MustCompile(`<Location ~ "\^/\(v1/\?\)\?\$" >\s+Require all granted`)
	if template := upstream(t, "ironic-config/httpd-ironic-api.conf.j2"); !open.MatchString(template) {
		t.Error("the web server of the image asks for a password on /v1")
	}
}

// TestAuthoritiesOfTheImage: Ironic of the image verifies BMCs with all files of a folder, and image servers with the
// file that a variable names.
func TestAuthoritiesOfTheImage(t *testing.T) {
	pods, err := ironic.Pods(full())
	if err != nil {
		t.Fatal(err)
	}
	prepare := strings.Join(pods[1].Spec.InitContainers[slices.IndexFunc(pods[1].Spec.InitContainers,
		func(c corev1.Container) bool { return c.Name == "prepare" })].Command, "\n")
	scripts := upstream(t, "scripts/tls-common.sh")
	template := upstream(t, "ironic-config/ironic.conf.j2")
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

// TestVariablesOfTheImage: the image reads each variable that the pods set, and the documentation says so.
func TestVariablesOfTheImage(t *testing.T) {
	var read strings.Builder
	read.WriteString(upstream(t, "scripts/ironic-common.sh"))
	for _, pattern := range []string{"scripts/*", "ironic-config/*"} {
		files, err := filepath.Glob(filepath.Join(os.Getenv("IRONIC_IMAGE_SOURCE"), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			read.WriteString(upstream(t, filepath.Join(filepath.Dir(pattern), filepath.Base(file))))
		}
	}
	documentation, err := os.ReadFile("../../docs/ironic-endpoint.md")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := ironic.Pods(full())
	if err != nil {
		t.Fatal(err)
	}
	for _, container := range pods[1].Spec.Containers {
		for _, variable := range container.Env {
			if isReadElsewhere(variable.Name) {
				continue
			}
			if !regexp.MustCompile(`\b` + variable.Name + `\b`).MatchString(read.String()) {
				t.Errorf("container %s sets %s, which the image does not read", container.Name, variable.Name)
			}
			if !strings.Contains(string(documentation), "`"+variable.Name+"`") {
				t.Errorf("docs/ironic-endpoint.md does not name %s", variable.Name)
			}
		}
	}
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
	default:
		// Python and curl read them.
		return strings.HasSuffix(strings.ToLower(name), "_proxy")
	}
}
