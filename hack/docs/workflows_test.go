package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// workflow has the used fields of a GitHub workflow. The workflows cannot run here.
type workflow struct {
	On   any            `json:"on"`
	Jobs map[string]job `json:"jobs"`
}

type job struct {
	Uses  string `json:"uses"`
	Needs any    `json:"needs"`
	Steps []struct {
		Uses string            `json:"uses"`
		Run  string            `json:"run"`
		With map[string]string `json:"with"`
	} `json:"steps"`
}

// step returns the index of the first step that uses an action, or whose script contains a text. It returns -1 if there
// is none.
func (j job) step(action, script string) int {
	for i, step := range j.Steps {
		if action != "" && strings.HasPrefix(step.Uses, action+"@") || script != "" && strings.Contains(step.Run, script) {
			return i
		}
	}
	return -1
}

// workflows returns the workflows by the names of their files.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), ".github", "workflows", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflow: %v", err)
	}
	all := map[string]workflow{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// YAML 1.1 reads the key on as true.
		text := regexp.MustCompile(`(?m)^on:`).ReplaceAllString(string(content), `"on":`)
		var parsed workflow
		if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = parsed
	}
	return all
}

// scripts returns the scripts of the jobs of all workflows, each command on one line.
func scripts(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, parsed := range workflows(t) {
		for _, job := range parsed.Jobs {
			for _, step := range job.Steps {
				all.WriteString(strings.ReplaceAll(step.Run, "\\\n", " ") + "\n")
			}
		}
	}
	return all.String()
}

func TestMakefileHasTheTargetsOfWorkflows(t *testing.T) {
	known := sets.New[string]()
	defined := regexp.MustCompile(`(?m)^(?:([a-z0-9-]+):|([A-Z_]+) \?=)`)
	for _, match := range defined.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		known.Insert(match[1] + match[2])
	}
	calls := regexp.MustCompile(`\bmake ([a-z0-9-]+)((?: +[A-Z_]+=\S+)*)`).FindAllStringSubmatch(scripts(t), -1)
	if len(calls) == 0 {
		t.Error("no workflow runs make")
	}
	for _, call := range calls {
		if !known.Has(call[1]) {
			t.Errorf("a workflow runs make %s, which the Makefile does not have", call[1])
		}
		for _, set := range strings.Fields(call[2]) {
			if name, _, _ := strings.Cut(set, "="); !known.Has(name) {
				t.Errorf("a workflow runs make %s with %s, which the Makefile does not have", call[1], name)
			}
		}
	}
}

// emulated returns true if a stage without --platform=${BUILDPLATFORM} runs a program, which requires emulation.
func emulated(t *testing.T) bool {
	t.Helper()
	for _, name := range []string{"Dockerfile", "images/keepalived/Dockerfile"} {
		for _, stage := range strings.Split(read(t, name), "\nFROM ")[1:] {
			if !strings.HasPrefix(stage, "--platform=${BUILDPLATFORM} ") && strings.Contains(stage, "\nRUN ") {
				return true
			}
		}
	}
	return false
}

func TestTheReleaseCanBuildForAllPlatforms(t *testing.T) {
	if !emulated(t) {
		t.Fatal("no image requires emulation: remove docker/setup-qemu-action from release.yaml, and this test")
	}
	release := workflows(t)["release.yaml"].Jobs["release"]
	qemu, images := release.step("docker/setup-qemu-action", ""), release.step("", "make images")
	if images < 0 || qemu < 0 || qemu > images {
		t.Fatal("an image runs programs of its own platform: use docker/setup-qemu-action before make images")
	}
	can := append(strings.Split(release.Steps[qemu].With["platforms"], ","), "amd64")
	for platform := range strings.SplitSeq(makeDefault(t, "PLATFORMS"), ",") {
		if !slices.Contains(can, strings.TrimPrefix(platform, "linux/")) {
			t.Errorf("docker/setup-qemu-action does not emulate %s, for which make images builds", platform)
		}
	}
}

// makeDefault returns the default of a variable of the Makefile.
func makeDefault(t *testing.T, name string) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + name + ` \?= (.*)$`).FindStringSubmatch(read(t, "Makefile"))
	if match == nil {
		t.Fatalf("the Makefile has no variable %s", name)
	}
	return match[1]
}

// TestReleaseSignsPushedImages requires the variables of the registry, because a fork pushes to its own registry.
func TestReleaseSignsPushedImages(t *testing.T) {
	release := workflows(t)["release.yaml"].Jobs["release"]
	calls := scripts(t)
	for _, target := range []string{"images", "release-manifests"} {
		call := cmp.Or(regexp.MustCompile(`make `+target+` [^\n]*`).FindString(calls), "nothing")
		for _, variable := range []string{`IMAGE="$IMAGE"`, `GUARD_IMAGE="$GUARD_IMAGE"`} {
			if !strings.Contains(call, " "+variable) {
				t.Errorf("the release runs %q, want it to contain %s", call, variable)
			}
		}
	}
	sign := release.step("", "cosign sign ")
	if sign < 0 || !strings.Contains(release.Steps[sign].Run, `"$IMAGE" "$GUARD_IMAGE"`) {
		t.Error("the release does not sign IMAGE and GUARD_IMAGE, which it pushes")
	}
	sum, sums := release.step("", "sha256sum -- * > sha256sums.txt"), release.step("", "cosign sign-blob ")
	if sum < 0 || sums < sum || sums > release.step("", "gh release create") {
		t.Error("the release does not sign sha256sums.txt between writing and publishing it")
	}
	owner, _, _ := strings.Cut(strings.TrimPrefix(makeDefault(t, "IMAGE"), "ghcr.io/"), "/")
	if strings.Contains(calls, "/"+owner+"/") {
		t.Errorf("a workflow names the registry of %s, where a fork may not push", owner)
	}
}

// TestTheReleaseWaitsForTheChecks requires that the release needs the checks, and that a release candidate is a
// pre-release.
func TestTheReleaseWaitsForTheChecks(t *testing.T) {
	parsed := workflows(t)["release.yaml"]
	release := parsed.Jobs["release"]
	if parsed.Jobs["checks"].Uses != "./.github/workflows/checks.yaml" || release.Needs != "checks" {
		t.Error("the release does not wait for the checks")
	}
	if on, ok := workflows(t)["checks.yaml"].On.(map[string]any); !ok || !sets.KeySet(on).Has("workflow_call") {
		t.Error("the release calls checks.yaml, which has no workflow_call")
	}
	publish := release.step("", "gh release create")
	if publish < 0 || !strings.Contains(release.Steps[publish].Run, `*-*) suffix=--prerelease`) {
		t.Error("a tag with a suffix such as -rc.1 is not published as a pre-release")
	}
}

// TestTheReleaseIsInTheChangelog runs the step of the release that compares the tag with CHANGELOG.md.
func TestTheReleaseIsInTheChangelog(t *testing.T) {
	release := workflows(t)["release.yaml"].Jobs["release"]
	found := release.step("", "CHANGELOG.md")
	if found < 0 || found > release.step("", "make images") {
		t.Fatal("no step before make images compares the tag with CHANGELOG.md")
	}
	for version, want := range map[string]bool{"v1.15.0": true, "v1.16.0": false, "v1.16.0-rc.1": true, "v1.1.0": false} {
		command := exec.CommandContext(t.Context(), "bash", "-e", "-c", release.Steps[found].Run)
		command.Dir, command.Env = t.TempDir(), append(os.Environ(), "VERSION="+version)
		changes := "# Changes\n\n## 1.16.0, not released\n\n## 1.15.0\n"
		if err := os.WriteFile(filepath.Join(command.Dir, "CHANGELOG.md"), []byte(changes), 0o600); err != nil {
			t.Fatal(err)
		}
		if output, err := command.CombinedOutput(); (err == nil) != want {
			t.Errorf("%s: published %v, want %v: %s", version, err == nil, want, output)
		}
	}
}

// TestActionsArePinned requires the commit of each action of another repository: a tag can be moved.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`@[0-9a-f]{40}$`)
	for file, parsed := range workflows(t) {
		for _, job := range parsed.Jobs {
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s uses %s: name the commit, and the tag in a comment", file, step.Uses)
				}
			}
		}
	}
}

// TestDependabotUpdatesEachModule requires that dependabot.yml names each module, except those that pin an earlier
// release.
func TestDependabotUpdatesEachModule(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root(t), ".github", "dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var settings struct {
		Updates []struct {
			Ecosystem   string   `json:"package-ecosystem"`
			Directories []string `json:"directories"`
		} `json:"updates"`
	}
	if err := yaml.Unmarshal(content, &settings); err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, update := range settings.Updates {
		if update.Ecosystem == "gomod" {
			named = append(named, update.Directories...)
		}
	}
	want := []string{"/"}
	files, err := filepath.Glob(filepath.Join(root(t), "hack", "*", "go.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no module in hack: %v", err)
	}
	for _, file := range files {
		folder := strings.TrimPrefix(filepath.Dir(file), root(t))
		if !strings.HasSuffix(folder, "earlier") {
			want = append(want, folder)
		}
	}
	if !slices.Equal(named, want) {
		t.Errorf("dependabot.yml names the modules %q, want %q", named, want)
	}
}

// TestWorkflowsPrepareTheMachine requires .ci/run, which installs packages such as keepalived and dnsmasq.
func TestWorkflowsPrepareTheMachine(t *testing.T) {
	for line := range strings.Lines(scripts(t)) {
		if strings.Contains(line, "make test") && !strings.Contains(line, ".ci/run make test") {
			t.Errorf("a workflow runs %q without .ci/run, so tests that need packages skip", strings.TrimSpace(line))
		}
	}
	nightly := workflows(t)["nightly.yaml"].Jobs["nightly"]
	upload := nightly.step("actions/upload-artifact", "")
	if upload < 0 {
		t.Fatal("the nightly workflow uploads no artefacts")
	}
	// test/lab/options.go, test/e2e and test/e2e/clusterapi write these folders.
	kept := strings.Fields(nightly.Steps[upload].With["path"])
	if want := []string{"out/lab", "out/e2e", "out/clusterapi"}; !slices.Equal(kept, want) {
		t.Errorf("the nightly workflow uploads %q, want %q", kept, want)
	}
}
