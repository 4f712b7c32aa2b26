package manifests_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
)

// address is the configuration of keepalived that a flavour writes on control-plane nodes.
type address struct {
	configuration, script, scriptPath string
	commands                          []string
}

func readAddress(t *testing.T, made release, flavour string) address {
	t.Helper()
	variables := []string{"CLUSTER_APIENDPOINT_INTERFACE=eno1", "CLUSTER_APIENDPOINT_VRID=77"}
	objects := made.render(t, flavour, variables...)
	config := only[controlplanev1.KubeadmControlPlane](t, objects, "KubeadmControlPlane").Spec.KubeadmConfigSpec
	found := address{commands: append(config.PreKubeadmCommands, config.PostKubeadmCommands...)}
	for _, file := range config.Files {
		if file.Path == "/etc/keepalived/keepalived.conf" {
			found.configuration = file.Content
			continue
		}
		found.script, found.scriptPath = file.Content, file.Path
		checkScriptFile(t, file)
	}
	return found
}

// checkScriptFile requires a script that only root can write, because keepalived runs as root.
func checkScriptFile(t *testing.T, file bootstrapv1.File) {
	t.Helper()
	if file.Owner != "root:root" || file.Permissions != "0755" || !strings.HasPrefix(file.Content, "#!/bin/sh\n") {
		t.Errorf("%s belongs to %s with permissions %s, want a script that only root writes",
			file.Path, file.Owner, file.Permissions)
	}
}

func TestKeepalivedIsTheSameInAllFlavours(t *testing.T) {
	made := newRelease(t)
	ubuntu, centos, ironic := readAddress(t, made, "ubuntu"), readAddress(t, made, "centos"), readAddress(t, made, "ironic")
	for name, other := range map[string]address{"centos": centos, "ironic": ironic} {
		other.commands = ubuntu.commands
		if diff := cmp.Diff(ubuntu, other, cmp.AllowUnexported(address{})); diff != "" {
			t.Errorf("files: -ubuntu, +%s:\n%s", name, diff)
		}
	}
	for _, line := range []string{
		"script \"" + ubuntu.scriptPath + "\"", "state BACKUP", "nopreempt", "interface eno1", "virtual_router_id 77",
		"192.0.2.10", "enable_script_security",
		// SELinux permits keepalived to run scripts in this folder only.
		"script \"/usr/libexec/keepalived/check-api\"",
	} {
		if !strings.Contains(ubuntu.configuration, "  "+line+"\n") {
			t.Errorf("keepalived.conf has no line %q:\n%s", line, ubuntu.configuration)
		}
	}
	if strings.Contains(ubuntu.configuration, "weight") {
		t.Error("a script with a weight never moves the VIP of a node with nopreempt")
	}
	for _, found := range []address{ubuntu, centos, ironic} {
		for _, text := range append(found.commands, found.script, found.configuration) {
			if strings.Contains(text, "{{") || strings.Contains(text, "{%") || strings.Contains(text, "{#") {
				t.Errorf("cloud-init would parse this as a template:\n%s", text)
			}
		}
	}
}

func TestCheckScript(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("requires curl")
	}
	script := readAddress(t, newRelease(t), "ubuntu").script
	cases := map[string]struct {
		reason string
		// files are paths below /run.
		files []string
		// answer is the status of /livez. 0 means no answer.
		answer int
		want   bool
	}{
		"Creating": {
			reason: "kubeadm requires the VIP before the API server runs",
			files:  []string{"kubeadm/kubeadm.yaml"},
			want:   true,
		},
		"Created": {
			reason: "after kubeadm the first node has no exception",
			files:  []string{"kubeadm/kubeadm.yaml", "cluster-api/bootstrap-success.complete"},
		},
		"Joining": {
			reason: "a joining node has no API server yet",
			files:  []string{"kubeadm/kubeadm-join-config.yaml"},
		},
		"Healthy": {
			reason: "a healthy API server",
			answer: http.StatusOK,
			want:   true,
		},
		"Unhealthy": {
			reason: "an unhealthy API server",
			answer: http.StatusInternalServerError,
		},
		"Down": {
			reason: "no API server",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/livez" {
					t.Errorf("the script requests %s", r.URL.Path)
				}
				w.WriteHeader(tc.answer)
			}))
			defer server.Close()
			url := server.URL
			if tc.answer == 0 {
				server.Close()
			}
			run := t.TempDir()
			for _, file := range tc.files {
				path := filepath.Join(run, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			adapted := strings.NewReplacer("/run/", run+"/", "https://127.0.0.1:6443", url).Replace(script)
			err := exec.CommandContext(t.Context(), "sh", "-c", adapted).Run()
			if got := err == nil; got != tc.want {
				t.Errorf("%s: may hold the address: %t, want %t (%v)", tc.reason, got, tc.want, err)
			}
		})
	}
}
