package plugin

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func runningKey() client.ObjectKey {
	return client.ObjectKey{Namespace: build.DefaultNamespace, Name: "c"}
}

// kubeconfig has two contexts, a token that must not be told, and an address where nobody listens.
const kubeconfig = `apiVersion: v1
kind: Config
current-context: first
clusters:
- name: there
  cluster: {server: "http://127.0.0.1:1"}
users:
- name: me
  user: {token: very-secret}
contexts:
- name: first
  context: {cluster: there, user: me, namespace: metal3}
- name: second
  context: {cluster: there, user: me}
- name: broken
  context: {cluster: nowhere, user: me}
`

// TestArguments runs what needs no cluster.
func TestArguments(t *testing.T) {
	folder := t.TempDir()
	file, garbage := filepath.Join(folder, "config"), filepath.Join(folder, "garbage")
	for path, content := range map[string]string{file: kubeconfig, garbage: "users: [{user: {token: very-secret"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		reason    string
		arguments string
		code      int
		want      string
	}{
		"Nothing":     {"a person who types nothing gets to know what there is", "", exitBlind, "clusterctl metal3 pivot COMMAND"},
		"Half":        {"the same with the first word", "pivot", exitBlind, "Commands:"},
		"Help":        {"asked for, it is no error", "--help", exitDone, "preflight"},
		"HelpOfHalf":  {"also with the first word", "pivot -h", exitDone, "demote"},
		"Unknown":     {"the mistake is quoted", "pivot jump", exitBlind, `"pivot jump" is no command`},
		"OtherWord":   {"the mistake is quoted", "move now", exitBlind, `"move now" is no command`},
		"CommandHelp": {"flags are listed", "pivot demote --help", exitDone, "--undo"},
		"UnknownFlag": {"the flag and the way out", "pivot status --nope", exitBlind, "unknown flag: --nope; clusterctl metal3 pivot status --help"},
		"NoFlag":      {"nothing is silently ignored", "pivot status now", exitBlind, `"now" is no flag`},
		"Output":      {"the value and the remedy", "pivot preflight -o yaml", exitBlind, `--output is "yaml"; use text or json`},
		"Output2":     {"the same everywhere", "pivot status -o yaml", exitBlind, `use text or json`},
		"Output3":     {"the same everywhere", "pivot demote -o yaml", exitBlind, `use text or json`},
		"Interval":    {"looking all the time helps nobody", "pivot status --interval 0s", exitBlind, "--interval is 0s; use a time above zero"},
		"Timeout":     {"it would never be reached", "pivot demote --timeout -1s", exitBlind, "--timeout is -1s; use a time above zero"},
		"NoFile":      {"the flag and the file", "pivot preflight --kubeconfig /nowhere", exitBlind, `reading --kubeconfig "/nowhere"`},
		"NoTarget": {"the other flag", "pivot preflight --kubeconfig " + file + " --to-kubeconfig /nowhere", exitBlind,
			`reading --to-kubeconfig "/nowhere"`},
		"Garbage":   {"no content of the file", "pivot preflight --kubeconfig " + garbage, exitBlind, "name a kubeconfig file"},
		"NoContext": {"the contexts that there are", "pivot status --kubeconfig " + file + " --kubeconfig-context third", exitBlind, `--kubeconfig-context is "third", which the file does not have; use one of: broken, first, second`},
		"NoTargetContext": {"the flag of the target", "pivot demote --kubeconfig " + file + " --to-kubeconfig " + file +
			" --to-kubeconfig-context third", exitBlind, `--to-kubeconfig-context is "third"`},
		"ContextAlone":  {"a context of what?", "pivot status --kubeconfig " + file + " --to-kubeconfig-context second", exitBlind, "--to-kubeconfig is empty"},
		"BrokenContext": {"it names a cluster that the file does not have", "pivot status --kubeconfig " + file + " --kubeconfig-context broken", exitBlind, "name a kubeconfig file with a context"},
		"Unreachable":   {"which side, what happened, what to look at", "pivot preflight --kubeconfig " + file, exitBlind, "looking at the source cluster: "},
		"Unreachable2":  {"the same", "pivot status --kubeconfig " + file, exitBlind, "connection refused; see whether --kubeconfig names it"},
		"Unreachable3":  {"the same", "pivot demote --kubeconfig " + file, exitBlind, "metal3-ironic-system/metal3-ironic"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			var text, errors bytes.Buffer
			arguments := append([]string{"/usr/local/bin/clusterctl-metal3"}, strings.Fields(test.arguments)...)
			code := Main(t.Context(), arguments, Environment{Output: &text, Errors: &errors})
			told := text.String() + errors.String()
			if code != test.code || !strings.Contains(told, test.want) {
				t.Errorf("%s: code %d, want %d, with %q in:\n%s", test.reason, code, test.code, test.want, told)
			}
			if strings.Contains(told, "very-secret") {
				t.Errorf("a credential is told:\n%s", told)
			}
			if (errors.Len() == 0) != (code == exitDone) {
				t.Errorf("code %d with errors %q", code, errors.String())
			}
		})
	}
}

func TestCalledAs(t *testing.T) {
	for path, want := range map[string]string{
		"/bin/kubectl-metal3": "kubectl metal3", "clusterctl-metal3": "clusterctl metal3", "plugin": "plugin",
	} {
		if got := calledAs([]string{path}); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if got := calledAs(nil); got != "clusterctl metal3" {
		t.Errorf("without a name: got %q", got)
	}
}
