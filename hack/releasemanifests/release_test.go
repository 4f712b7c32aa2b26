package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

func TestCheckVersion(t *testing.T) {
	metadata := `apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries:
- {major: 1, minor: 15, contract: v1beta2}
`
	cases := map[string]struct {
		reason   string
		version  string
		metadata string
		want     string
	}{
		"Release": {
			reason:   "clusterctl accepts a version of a listed series",
			version:  "v1.15.3",
			metadata: metadata,
		},
		"PreRelease": {
			reason:   "a pre-release belongs to its series",
			version:  "v1.15.0-rc.1",
			metadata: metadata,
		},
		"UnknownSeries": {
			reason:   "clusterctl refuses a release whose series its metadata does not list",
			version:  "v1.16.0",
			metadata: metadata,
			want:     `-version is "v1.16.0": add the series 1.16 to metadata.yaml first`,
		},
		"NoPrefix": {
			reason:   "clusterctl finds only folders whose name starts with v",
			version:  "1.15.0",
			metadata: metadata,
			want:     `-version is "1.15.0": give a semantic version that starts with v, such as v1.15.0`,
		},
		"Escape": {
			reason:   "the version names a folder that is removed first",
			version:  "v1.15.0/../..",
			metadata: metadata,
			want:     `-version is "v1.15.0/../..": give a semantic version that starts with v, such as v1.15.0`,
		},
		"Typo": {
			reason:   "a misspelt field would drop a series",
			version:  "v1.15.0",
			metadata: strings.Replace(metadata, "contract", "contrakt", 1),
			want:     `unknown field "contrakt"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkVersion(tc.version, []byte(tc.metadata))
			if tc.want == "" && err != nil {
				t.Errorf("%s: got error %v", tc.reason, err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s: got error %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestSetImage(t *testing.T) {
	line := "        image: " + defaultImage + ":" + developmentTag + "\n"
	cases := map[string]struct {
		reason  string
		in      string
		want    string
		wantErr bool
	}{
		"Once": {
			reason: "the release runs its own image",
			in:     "a\n" + line + "b\n",
			want:   "a\n        image: registry.example/manager:v1\nb\n",
		},
		"Never": {
			reason:  "components that run another image must not be released",
			in:      "a\nb\n",
			wantErr: true,
		},
		"LongerTag": {
			reason:  "a tag with the same start is another image",
			in:      strings.TrimSuffix(line, "\n") + "elopment\n",
			wantErr: true,
		},
		"Twice": {
			reason:  "only one container has the image of the manager",
			in:      line + line,
			wantErr: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := setImage([]byte(tc.in), "registry.example/manager:v1")
			if (err != nil) != tc.wantErr {
				t.Fatalf("%s: got error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSetGuard(t *testing.T) {
	const argument = "        - --leader-elect\n"
	cases := map[string]struct {
		reason  string
		in      string
		want    string
		wantErr bool
	}{
		"Once": {
			reason: "nodes get the guard of the release",
			in:     "a\n" + argument + "b\n",
			want:   "a\n" + argument + "        - --keepalived-guard-image=registry.example/guard:v1\nb\n",
		},
		"Never": {reason: "nodes would get another image", in: "a\nb\n", wantErr: true},
		"Twice": {reason: "the manager is ambiguous", in: argument + argument, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := setGuard([]byte(tc.in), "registry.example/guard:v1")
			if (err != nil) != tc.wantErr {
				t.Fatalf("%s: got error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCheckTags(t *testing.T) {
	cases := map[string]struct {
		reason, in, want string
	}{
		"Release":     {"a tag of a release is in a registry", "image: registry/guard:v1.15.0\n", ""},
		"Development": {"no registry has it", "image: registry/guard:dev\n", "a.yaml names the image registry/guard:dev: give it the tag of the release"},
		"Quoted":      {"quotes change nothing", `image: "registry/guard:dev"`, "a.yaml names the image registry/guard:dev: give it the tag of the release"},
		"Longer":      {"a tag with the same start is another tag", "image: registry/guard:devel\n", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := checkTags(map[string][]byte{"a.yaml": []byte(tc.in)}); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("%s: got error %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	output := t.TempDir()
	stale := filepath.Join(output, "v1.15.0", "cluster-template-removed.yaml")
	if err := os.MkdirAll(filepath.Dir(stale), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	made := release{
		root: root, version: "v1.15.0", image: "registry.example/manager:v1.15.0", guard: "registry.example/guard:v1.15.0",
		output: output,
	}
	written, err := made.write(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	got := make([]string, 0, len(written))
	for _, path := range written {
		got = append(got, filepath.Base(path))
	}
	want := []string{
		"cluster-template-centos.yaml", "cluster-template-development.yaml", "cluster-template-ironic.yaml",
		"cluster-template-topology.yaml", "cluster-template-ubuntu.yaml", "cluster-template.yaml", "clusterclass-metal3.yaml",
		"infrastructure-components.yaml", "ironic-endpoint.yaml", "ironic.yaml", "metadata.yaml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files of the release: -want, +got:\n%s", diff)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("%s still exists: a release must not keep old files", stale)
	}
}
