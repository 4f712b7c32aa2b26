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

// kubeconfig has two contexts, a token that must not be printed, and an address without a server.
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

// TestArguments runs commands that require no cluster.
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
		"Nothing":     {"without arguments, the usage is printed", "", exitBlind, "clusterctl metal3 [command]"},
		"Half":        {"with the first word only, the commands are printed", "pivot", exitBlind, "Available Commands:"},
		"Help":        {"--help is no error", "--help", exitDone, "pivot"},
		"HelpOfHalf":  {"-h is no error", "pivot -h", exitDone, "handover"},
		"Unknown":     {"the mistake is quoted", "pivot jump", exitBlind, `unknown command "jump" for "clusterctl metal3 pivot"`},
		"OtherWord":   {"the mistake is quoted", "move now", exitBlind, `unknown command "move" for "clusterctl metal3"`},
		"CommandHelp": {"flags are listed", "pivot demote --help", exitDone, "--undo"},
		"UnknownFlag": {"the flag and the way out", "pivot status --nope", exitBlind, "unknown flag: --nope; clusterctl metal3 pivot status --help"},
		"NotPrinted":  {"a terminal must not execute it", "pivot status --no\x1b[2Jpe", exitBlind, `unknown flag: --no\x1b[2Jpe`},
		"NoFlag":      {"superfluous arguments are errors", "pivot status now", exitBlind, `unknown command "now" for "clusterctl metal3 pivot status"`},
		"Output":      {"the value and the remedy", "pivot preflight -o wide", exitBlind, `--output is "wide"; use text, json or yaml`},
		"Output2":     {"the same everywhere", "pivot status -o xml", exitBlind, `--output is "xml"; use text, wide, json or yaml`},
		"Output3":     {"the same everywhere", "pivot demote -o wide", exitBlind, `use text, json or yaml`},
		"Interval":    {"an interval of zero is invalid", "pivot status --interval 0s", exitBlind, "--interval is 0s; use a time above zero"},
		"Timeout":     {"it would never be reached", "pivot demote --timeout -1s", exitBlind, "--timeout is -1s; use a time above zero"},
		"Version":     {"the header is that of all documents", "version -o yaml", exitDone, "apiVersion: plugin.infrastructure.cluster.x-k8s.io/v1alpha1"},
		"Completion":  {"for each shell", "completion bash", exitDone, "bash completion"},
		"Values":      {"values of flags are offered", "__complete pivot status --until a", exitDone, "arrived"},
		"Until":       {"the value and the remedy", "pivot status -w --until gone", exitBlind, `--until is "gone"; use parked, arrived or adopted`},
		"UntilAlone":  {"it ends nothing", "pivot status --until parked", exitBlind, "set --watch too"},
		"UntilTarget": {"the arrival requires a target", "pivot status -w --until arrived", exitBlind, "name the target"},
		"RunTarget":   {"a move requires a target", "pivot run", exitBlind, "--to-kubeconfig is empty: name the target"},
		"AbortTarget": {"the target shows the progress of the move", "pivot abort", exitBlind, "--to-kubeconfig is empty: name the target"},
		"WaitTimeout": {"it would never be reached", "pivot preflight --wait --timeout 0s", exitBlind, "--timeout is 0s; use a time above zero"},
		"NoFile":      {"the flag and the file", "pivot preflight --kubeconfig /nowhere", exitBlind, `reading --kubeconfig "/nowhere"`},
		"NoTarget": {"the other flag", "pivot preflight --kubeconfig " + file + " --to-kubeconfig /nowhere", exitBlind,
			`reading --to-kubeconfig "/nowhere"`},
		"Garbage":   {"no content of the file", "pivot preflight --kubeconfig " + garbage, exitBlind, "name a kubeconfig file"},
		"NoContext": {"the contexts that there are", "pivot status --kubeconfig " + file + " --kubeconfig-context third", exitBlind, `--kubeconfig-context is "third", which the file does not have; use one of: broken, first, second`},
		"NoTargetContext": {"the flag of the target", "pivot demote --kubeconfig " + file + " --to-kubeconfig " + file +
			" --to-kubeconfig-context third", exitBlind, `--to-kubeconfig-context is "third"`},
		"ContextAlone":  {"a context requires its file", "pivot status --kubeconfig " + file + " --to-kubeconfig-context second", exitBlind, "--to-kubeconfig is empty"},
		"BrokenContext": {"it names a cluster that the file does not have", "pivot status --kubeconfig " + file + " --kubeconfig-context broken", exitBlind, "name a kubeconfig file with a context"},
		"Unreachable":   {"the cluster, the error and the remedy", "pivot preflight --kubeconfig " + file, exitBlind, "reading the source cluster: "},
		"Unreachable2":  {"the same", "pivot status --kubeconfig " + file, exitBlind, "connection refused; check that --kubeconfig names it"},
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
				t.Errorf("a credential is printed:\n%s", told)
			}
			if (errors.Len() == 0) != (code == exitDone) && name != "Values" {
				t.Errorf("code %d with errors %q", code, errors.String())
			}
		})
	}
}

// TestQuestionIsPrintable quotes a question with the name of a hostile object.
func TestQuestionIsPrintable(t *testing.T) {
	err := confirm(t.Context(), Environment{}, false, "Hosts "+hostile+" are moved.")
	if want := hostileText + " are moved."; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want it with %q", err, want)
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
