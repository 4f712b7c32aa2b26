package entry

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mirror is a server of ramdisks.
type mirror struct {
	*httptest.Server
	shared   string
	content  []byte
	tag      string
	gone     bool
	requests []string
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	m := &mirror{shared: t.TempDir()}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.requests = append(m.requests, r.URL.Path+" "+r.Header.Get("If-None-Match"))
		switch {
		case m.gone:
			http.Error(w, "out of order", http.StatusBadGateway)
		case m.tag != "" && r.Header.Get("If-None-Match") == m.tag:
			w.WriteHeader(http.StatusNotModified)
		default:
			if m.tag != "" {
				w.Header().Set("ETag", m.tag)
			}
			_, _ = w.Write(m.content)
		}
	}))
	t.Cleanup(m.Close)
	return m
}

// serve replaces the archive of the mirror.
func (m *mirror) serve(t *testing.T, tag, kernel string) {
	t.Helper()
	m.tag, m.content = tag, archiveOf(t, map[string]string{
		"some/folder/" + RamdiskKernel: kernel, RamdiskInitramfs: "ramdisk of " + kernel,
	})
}

// run downloads and returns the output.
func (m *mirror) run(t *testing.T, variables map[string]string) (string, error) {
	t.Helper()
	m.requests = nil
	var output strings.Builder
	err := download(t.Context(), func(name string) string {
		if value, set := variables[name]; set {
			return value
		}
		return map[string]string{"IPA_BASEURI": m.URL + "/ipa/", "SHARED_DIR": m.shared}[name]
	}, &output)
	return output.String(), err
}

// expect compares the served files with the expected ones.
func (m *mirror) expect(t *testing.T, kernel string) {
	t.Helper()
	for suffix, want := range map[string]string{".kernel": kernel, ".initramfs": "ramdisk of " + kernel} {
		got, err := os.ReadFile(filepath.Join(m.shared, "html", "images", "ironic-python-agent"+suffix))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", suffix, got, err, want)
		}
	}
	left, err := os.ReadDir(filepath.Join(m.shared, "tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestDownload(t *testing.T) {
	for name, tags := range map[string][2]string{"with tags": {`"one"`, `"two"`}, "without tags": {"", ""}} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			for i, step := range []struct {
				tag, kernel string
				gone        bool
				want, said  string
			}{
				{tags[0], "kernel 1", false, "kernel 1", "downloaded"},
				{tags[0], "kernel 1", false, "kernel 1", "still"},
				{tags[1], "kernel 2, which is a longer one", false, "kernel 2, which is a longer one", "downloaded"},
				{tags[1], "kernel 3", true, "kernel 2, which is a longer one", "keeping"},
			} {
				m.serve(t, step.tag, step.kernel)
				m.gone = step.gone
				said, err := m.run(t, nil)
				if err != nil || !strings.Contains(said, step.said) {
					t.Fatalf("step %d: %q, %v, want %q", i, said, err, step.said)
				}
				if m.requests[0][:len("/ipa/"+RamdiskArchive)] != "/ipa/"+RamdiskArchive {
					t.Errorf("step %d: requests %v", i, m.requests)
				}
				m.expect(t, step.want)
			}
		})
	}
}

func TestDownloadAgainWhenSomethingIsMissing(t *testing.T) {
	m := newMirror(t)
	m.serve(t, `"one"`, "kernel 1")
	_, err := m.run(t, nil)
	if err := errors.Join(err, os.Remove(filepath.Join(m.shared, "html", "images", "ironic-python-agent.initramfs"))); err != nil {
		t.Fatal(err)
	}
	if _, err := m.run(t, nil); err != nil || strings.Contains(m.requests[0], "one") {
		t.Fatalf("requests %v, %v", m.requests, err)
	}
	m.expect(t, "kernel 1")
}

func TestDownloadOfAnotherArchive(t *testing.T) {
	m := newMirror(t)
	m.tag, m.content = `"one"`, archiveOf(t, map[string]string{
		"ipa-debian-stable-2.0.kernel": "kernel 1", "ipa-debian-stable-2.0.initramfs": "ramdisk of kernel 1",
	})
	_, err := m.run(t, map[string]string{"IPA_FLAVOR": "debian", "IPA_BRANCH": "stable/2.0"})
	if err != nil || !strings.Contains(m.requests[0], "/ipa-debian-stable-2.0.tar.gz") {
		t.Fatalf("requests %v, %v", m.requests, err)
	}
	m.expect(t, "kernel 1")
}

func TestDownloadFromAFile(t *testing.T) {
	m, folder := newMirror(t), t.TempDir()
	m.serve(t, "", "kernel 1")
	if err := os.WriteFile(filepath.Join(folder, RamdiskArchive), m.content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"downloaded", "still"} {
		said, err := m.run(t, map[string]string{"IPA_BASEURI": "file://" + folder})
		if err != nil || !strings.Contains(said, want) {
			t.Fatalf("got %q, %v, want %q", said, err, want)
		}
	}
	m.expect(t, "kernel 1")
}

func TestDownloadFails(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*mirror)
		variables map[string]string
		want      string
	}{
		"no server":           {func(m *mirror) { m.gone = true }, nil, "502"},
		"no archive":          {func(m *mirror) { m.content = []byte("<html>") }, nil, "unpacking"},
		"a truncated archive": {func(m *mirror) { m.content = m.content[:len(m.content)-30] }, nil, "unpacking"},
		"another archive":     {func(*mirror) {}, map[string]string{"FILENAME": "other.tar.gz"}, "other.kernel"},
		"a second server":     {func(*mirror) {}, map[string]string{"CACHEURL": "http://cache"}, "CACHEURL"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.serve(t, `"one"`, "kernel 1")
			test.change(m)
			if _, err := m.run(t, test.variables); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			served, err := filepath.Glob(filepath.Join(m.shared, "html", "images", "*"))
			if err != nil || len(served) > 0 {
				t.Errorf("%v is served, %v", served, err)
			}
		})
	}
}

func TestMainSelectsTheEntryPointByName(t *testing.T) {
	if err := Main(t.Context(), "/bin/rundnsmasq", func(string) string { return "" }); err == nil {
		t.Error("an unknown name has an entry point")
	}
	// Without an environment these return an error.
	for _, name := range []string{RunIronic, RunHTTPD} {
		err := Main(t.Context(), name, func(string) string { return "" })
		if err == nil || !strings.Contains(err.Error(), "IRONIC_IP") {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := Main(t.Context(), GetResource, func(name string) string { return map[string]string{"CACHEURL": "x"}[name] })
	if err == nil || !strings.Contains(err.Error(), "CACHEURL") {
		t.Errorf("%s: %v", GetResource, err)
	}
}
