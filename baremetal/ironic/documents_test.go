package ironic_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// rendered returns the containers of all pods and of the management side, with all settings.
func rendered(t *testing.T) []corev1.Container {
	t.Helper()
	outside := full()
	outside.Settings.CallbackURL, outside.Settings.ImageURL = "", ""
	outside.Settings.ExternalIP = "192.0.2.1"
	var containers []corev1.Container
	for _, config := range []ironic.Config{full(), outside} {
		pods, err := ironic.Pods(config)
		if err != nil {
			t.Fatal(err)
		}
		management, err := ironic.Deployment(config, ironic.Management{Name: "ironic", Namespace: "ironic", Secret: "files"})
		if err != nil {
			t.Fatal(err)
		}
		specs := []corev1.PodSpec{management.Spec.Template.Spec}
		for _, pod := range pods {
			specs = append(specs, pod.Spec)
		}
		for _, spec := range specs {
			containers = append(containers, slices.Concat(spec.InitContainers, spec.Containers)...)
		}
	}
	return containers
}

// foreign returns the containers with images of other projects.
func foreign(t *testing.T) []corev1.Container {
	t.Helper()
	return slices.DeleteFunc(rendered(t), func(c corev1.Container) bool { return c.Image == full().Images.Guard })
}

// namesInTheTable returns the names in the first column of the table.
func namesInTheTable(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, row := range documented(t) {
		names = append(names, row.names...)
	}
	return names
}

// inTable returns a variable as the table names it: the table has one row for options of ironic.conf and one for
// ramdisks of architectures, and names variables of a proxy in lower case.
func inTable(name string) string {
	variable, _, ofArchitecture := strings.Cut(name, "_URL_")
	switch {
	case ofArchitecture:
		return variable + "_URL_<ARCH>"
	case strings.HasPrefix(name, "OS_"):
		return "OS_<GROUP>__<NAME>"
	case strings.HasSuffix(strings.ToLower(name), "_proxy"):
		return strings.ToLower(name)
	default:
		return name
	}
}

func TestTableHasTheVariablesOfThePods(t *testing.T) {
	isSet := map[string]bool{}
	for _, container := range rendered(t) {
		for _, variable := range container.Env {
			isSet[inTable(variable.Name)] = true
		}
		for _, argument := range container.Command {
			if again, found := strings.CutPrefix(argument, "--again="); found {
				name, _, _ := strings.Cut(again, "=")
				isSet[name] = true
			}
		}
	}
	isNoVariable := func(name string) bool { return !regexp.MustCompile(`^[A-Za-z_<>]+$`).MatchString(name) }
	listed := slices.DeleteFunc(namesInTheTable(t), isNoVariable)
	slices.Sort(listed)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(isSet)), listed); diff != "" {
		t.Errorf("variables: -pods +docs/ironic-endpoint.md:\n%s", diff)
	}
}

// TestTableHasTheMountsOfThePods ignores folders of this provider, which the programs of the images do not read.
func TestTableHasTheMountsOfThePods(t *testing.T) {
	own := []string{"/tools", "/private", ironic.StateDirectory, ironic.NodeDirectory}
	listed := namesInTheTable(t)
	for _, container := range foreign(t) {
		for _, mount := range container.VolumeMounts {
			isBelow := func(path string) bool { return strings.HasPrefix(path+"/", mount.MountPath+"/") }
			isAbove := func(path string) bool { return strings.HasPrefix(mount.MountPath+"/", path+"/") }
			if !slices.ContainsFunc(own, isAbove) && !slices.ContainsFunc(listed, isBelow) {
				t.Errorf("docs/ironic-endpoint.md has no row for %s of container %s", mount.MountPath, container.Name)
			}
		}
	}
}

func TestTableHasTheCommandsOfThePods(t *testing.T) {
	listed := namesInTheTable(t)
	for _, container := range foreign(t) {
		program := container.Command[slices.Index(container.Command, "--")+1]
		if !slices.Contains(listed, program) {
			t.Errorf("docs/ironic-endpoint.md has no row for command %s of container %s", program, container.Name)
		}
	}
}

func TestTableHasTheProbesOfThePods(t *testing.T) {
	ports := map[int32]string{full().Ports.API: "<port>", full().Ports.Image: "<imagePort>"}
	listed := namesInTheTable(t)
	for _, container := range foreign(t) {
		for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe, container.StartupProbe} {
			if probe == nil {
				continue
			}
			get := probe.HTTPGet
			text := fmt.Sprintf("%s://%s:%s%s", strings.ToLower(string(get.Scheme)), get.Host, ports[get.Port.IntVal], get.Path)
			if !slices.Contains(listed, text) {
				t.Errorf("docs/ironic-endpoint.md has no row for probe %q of container %s", text, container.Name)
			}
		}
	}
}

func TestTableHasTheUsersOfThePods(t *testing.T) {
	page, err := os.ReadFile("../../docs/ironic-endpoint.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, container := range foreign(t) {
		user, group := *container.SecurityContext.RunAsUser, *container.SecurityContext.RunAsGroup
		row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| user %d, group %d \\|[^|]*`%s`", user, group, nameInTable(container)))
		if !row.Match(page) {
			t.Errorf("docs/ironic-endpoint.md has no row for user %d, group %d of container %s", user, group, container.Name)
		}
	}
}

// TestTableHasTheResourcesOfThePods compares the requests. There are no limits by default.
func TestTableHasTheResourcesOfThePods(t *testing.T) {
	page, err := os.ReadFile("../../docs/ironic-endpoint.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| Container | Pod | CPU | Memory |")
	table, _, _ = strings.Cut(table, "\n\n")
	listed := map[string][2]string{}
	row := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| [^|]+ \\| (\\w+) \\| (\\w+) \\|")
	for _, match := range row.FindAllStringSubmatch(table, -1) {
		listed[match[1]] = [2]string{match[2], match[3]}
	}
	requests := map[string][2]string{}
	for _, container := range rendered(t) {
		if len(container.Resources.Limits) > 0 {
			t.Errorf("container %s has limits", container.Name)
		}
		wanted := container.Resources.Requests
		requests[nameInTable(container)] = [2]string{wanted.Cpu().String(), wanted.Memory().String()}
	}
	if diff := cmp.Diff(requests, listed); diff != "" {
		t.Errorf("requests: -pods +docs/ironic-endpoint.md:\n%s", diff)
	}
}

// TestTableHasTheFirmwareOfDHCP compares the boot programs with those of both families.
func TestTableHasTheFirmwareOfDHCP(t *testing.T) {
	listed := namesInTheTable(t)
	v6 := full()
	v6.DHCP = dhcp6()
	for _, config := range []ironic.Config{full(), v6} {
		content, err := ironic.DNSMasq(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range firmwareIn(string(content)) {
			if !slices.Contains(listed, "/tftpboot/"+name) {
				t.Errorf("docs/ironic-endpoint.md has no row for /tftpboot/%s", name)
			}
		}
	}
}

// nameInTable returns the name of a container in the document, where all downloads have one row.
func nameInTable(container corev1.Container) string {
	if strings.HasPrefix(container.Name, "download-") {
		return "download"
	}
	return container.Name
}
