package endpoint

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/image"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

// oneContainer returns a pod with a program of an image that runs as the user of Ironic, with a folder of the test as
// /shared.
func oneContainer(t *testing.T, packed image.Image, command []string, variables ...corev1.EnvVar) *pod {
	t.Helper()
	result := &pod{images: map[string]image.Image{"one": packed}, folder: t.TempDir()}
	if err := os.Mkdir(result.volume("shared"), 0o755); err != nil {
		t.Fatal(err)
	}
	result.spec.InitContainers = []corev1.Container{{
		Name: "one", Image: "one", Command: command, Env: variables,
		SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](997), RunAsGroup: ptr.To[int64](994)},
		VolumeMounts:    []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}},
	}}
	return result
}

// requireIronic returns the image of Ironic, or skips the test if it cannot be built in seconds.
func requireIronic(t *testing.T) image.Image {
	t.Helper()
	return requireImages(t)["quay.io/metal3-io/ironic:v38.0.0"]
}

// TestConfigurationOfTheWebServer checks every configuration of the tests of package entry with the web server.
func TestConfigurationOfTheWebServer(t *testing.T) {
	packed := requireIronic(t)
	credentials, err := ironic.NewCredentials(virtualIP)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("entry/testdata/*/httpd.conf")
	if err != nil || len(files) == 0 {
		t.Fatalf("no configurations: %v", err)
	}
	packed.Files = append(slices.Clip(packed.Files),
		// The image has this folder for another user, and this user may not create it.
		image.File{Path: "/shared/html/images/file"},
		image.File{Path: "/auth/ironic/htpasswd"},
		image.File{Path: "/tmp/data/file"},
	)
	for _, folder := range []string{"/certs/ironic", "/certs/vmedia"} {
		packed.Files = append(packed.Files,
			image.File{Path: folder + "/tls.crt", Content: credentials.Certificate},
			image.File{Path: folder + "/tls.key", Content: credentials.Key})
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			one := packed
			one.Files = append(slices.Clip(packed.Files), image.File{Path: "/etc/httpd.conf", Content: content})
			running := oneContainer(t, one, []string{"/usr/sbin/apache2", "-t", "-f", "/etc/httpd.conf"}).start(t, "one")
			<-running.done
			if running.ended != nil || !running.said("Syntax OK") {
				t.Errorf("the web server refuses the configuration: %v", running.ended)
			}
		})
	}
}

// TestEntryImportsTheStandardLibrary requires imports that the key of the image covers.
func TestEntryImportsTheStandardLibrary(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, "go", "list", "-deps", "-f",
		"{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/entry").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(output)) {
		if !strings.Contains(path, "/test/lab/endpoint/") {
			t.Errorf("the entry points import %s, whose content is not part of the key", path)
		}
	}
}

func TestSourcesOfTheKey(t *testing.T) {
	for name, want := range map[string]bool{
		"entry/settings.go": true, "entry/templates/httpd.conf.tmpl": true, "cmd/entry/main.go": true,
		"entry/settings_test.go": false, "entry/testdata/pod/httpd.conf": false,
	} {
		if _, err := entrySources.ReadFile(name); err != nil {
			t.Errorf("%s is not embedded: %v", name, err)
		}
		if got := isSource(name); got != want {
			t.Errorf("%s is part of the key: %t, want %t", name, got, want)
		}
	}
}

// TestRamdiskHandler downloads twice with the downloader.
func TestRamdiskHandler(t *testing.T) {
	images := requireImages(t)
	handler, err := RamdiskHandler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	one := oneContainer(t, images["quay.io/metal3-io/ironic-ipa-downloader:latest"], nil,
		corev1.EnvVar{Name: "IPA_BASEURI", Value: server.URL})
	if err := os.Chown(one.volume("shared"), 997, 994); err != nil {
		t.Fatal(err)
	}
	words := []string{"downloaded", "still"}
	if os.Getenv(downloaderSource) != "" {
		words = []string{"ironic-python-agent.kernel", "ironic-python-agent.kernel"}
	}
	for _, want := range words {
		running := one.start(t, "one")
		<-running.done
		if running.ended != nil || !running.said(want) {
			t.Errorf("the downloader did not print %q: %v", want, running.ended)
		}
	}
	for _, name := range []string{"ironic-python-agent.kernel", "ironic-python-agent.initramfs"} {
		status, err := os.Stat(filepath.Join(one.volume("shared"), "html", "images", name))
		if err != nil || status.Size() == 0 || status.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, status, err)
		}
	}
}
