package guard

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ramdiskServer serves the archive of the deploy ramdisk with an ETag.
type ramdiskServer struct {
	archive  []byte
	requests atomic.Int32
	away     atomic.Bool

	// truncates ends the connection after half of the archive.
	truncates atomic.Bool

	// stalls keeps the connection open after half of the archive.
	stalls atomic.Bool
}

func (s *ramdiskServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	if s.away.Load() {
		http.Error(w, "maintenance", http.StatusServiceUnavailable)
		return
	}
	w.Header()["ETag"] = []string{`"one"`}
	if s.truncates.Load() || s.stalls.Load() {
		w.Header().Set("Content-Length", strconv.Itoa(len(s.archive)))
		_, _ = w.Write(s.archive[:len(s.archive)/2])
		if s.stalls.Load() {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.archive))
}

// upstream is the published downloader with a server and an empty folder.
func upstream(t *testing.T) (*ramdiskServer, download) {
	t.Helper()
	program := os.Getenv("IPA_DOWNLOADER")
	if program == "" {
		t.Skip("requires IPA_DOWNLOADER: set it to get-resource.sh of metal3-io/ironic-ipa-downloader")
	}
	for _, needed := range []string{"bash", "curl", "tar"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("the downloader requires %s: %v", needed, err)
		}
	}
	s := &ramdiskServer{archive: ramdisk(t, "centos9")}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	shared := t.TempDir()
	t.Setenv("SHARED_DIR", shared)
	t.Setenv("IPA_BASEURI", server.URL)
	for _, proxy := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"} {
		t.Setenv(proxy, "")
	}
	images := filepath.Join(shared, "html", "images")
	return s, download{
		images: []string{
			filepath.Join(images, "ironic-python-agent.kernel"), filepath.Join(images, "ironic-python-agent.initramfs"),
		},
		stale:   []string{filepath.Join(images, "ironic-python-agent.headers"), filepath.Join(images, "*.tar.gz-*")},
		scratch: filepath.Join(shared, "tmp"), patience: downloadPatience,
		record:  filepath.Join(shared, "sums"),
		command: []string{"bash", program},
		pause:   time.Millisecond,
		log:     slog.New(slog.NewTextHandler(testWriter{t}, nil)),
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(line)))
	return len(line), nil
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ramdisk packs kernel and ramdisk of a flavor as upstream does.
func ramdisk(t *testing.T, flavor string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for _, name := range []string{"ipa-" + flavor + "-master.kernel", "ipa-" + flavor + "-master.initramfs"} {
		noError(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(name))}))
		_, err := io.WriteString(archive, name)
		noError(t, err)
	}
	noError(t, errors.Join(archive.Close(), zipped.Close()))
	return packed.Bytes()
}

func (d download) check(t *testing.T) {
	t.Helper()
	d.has(t, "centos9")
}

// has expects the files of a flavor.
func (d download) has(t *testing.T, flavor string) {
	t.Helper()
	for _, image := range d.images {
		content, err := os.ReadFile(image)
		noError(t, err)
		if want := "ipa-" + flavor + "-master" + filepath.Ext(image); string(content) != want {
			t.Errorf("%s has %q, want %q", image, content, want)
		}
	}
}

func TestDownloadAfterAReboot(t *testing.T) {
	server, d := upstream(t)
	noError(t, d.run(t.Context()))
	d.check(t)
	requests := server.requests.Load()
	if requests == 0 {
		t.Fatal("nothing was downloaded")
	}
	for range 3 {
		noError(t, d.run(t.Context()))
		d.check(t)
	}
	if now := server.requests.Load(); now != requests {
		t.Errorf("%d requests for existing files", now-requests)
	}
	server.away.Store(true)
	noError(t, d.run(t.Context()))
}

// TestDownloadForTwoArchitectures downloads a second ramdisk beside the first one, with the arguments and variables of the
// pods. A repeated download of the first one deletes the folder of the second one, which is then downloaded again.
func TestDownloadForTwoArchitectures(t *testing.T) {
	_, first := upstream(t)
	arm := httptest.NewServer(&ramdiskServer{archive: ramdisk(t, "debian-arm64")})
	t.Cleanup(arm.Close)
	images := filepath.Dir(first.images[0])
	second := first
	second.images = []string{
		filepath.Join(images, "ironic-python-agent_aarch64.kernel"), filepath.Join(images, "ironic-python-agent_aarch64.initramfs"),
	}
	second.stale = []string{
		filepath.Join(images, "ironic-python-agent_aarch64.headers"), filepath.Join(images, "ipa-debian-arm64-*.tar.gz-*"),
	}
	second.record += "-aarch64"
	second.command = append([]string{
		"env", "IPA_ARCH=aarch64", "IPA_FLAVOR=debian-arm64", "IPA_BASEURI=" + arm.URL,
	}, first.command...)
	both := func() {
		t.Helper()
		noError(t, first.run(t.Context()))
		noError(t, second.run(t.Context()))
		first.check(t)
		second.has(t, "debian-arm64")
	}
	both()
	for _, damaged := range []string{first.images[0], second.images[1]} {
		noError(t, os.Truncate(damaged, 5))
		both()
	}
}

// TestDownloadAfterAPowerLoss repeats interrupted downloads and those of damaged files.
func TestDownloadAfterAPowerLoss(t *testing.T) {
	for name, lose := range map[string]func(d download) error{
		"a file is truncated":     func(d download) error { return os.Truncate(d.images[1], 5) },
		"other content":           func(d download) error { return os.WriteFile(d.images[0], make([]byte, 20), 0o600) },
		"the record is empty":     func(d download) error { return os.Truncate(d.record, 0) },
		"the record is truncated": func(d download) error { return os.Truncate(d.record, 64) },
	} {
		t.Run(name, func(t *testing.T) {
			server, d := upstream(t)
			noError(t, d.run(t.Context()))
			requests := server.requests.Load()
			noError(t, lose(d))
			noError(t, d.run(t.Context()))
			d.check(t)
			if server.requests.Load() == requests {
				t.Error("nothing was downloaded")
			}
			requests = server.requests.Load()
			noError(t, d.run(t.Context()))
			if now := server.requests.Load(); now != requests {
				t.Errorf("%d requests for files that were just downloaded", now-requests)
			}
		})
	}
}

// TestDownloadRecordsExistingFiles uses and records files of the node image.
func TestDownloadRecordsExistingFiles(t *testing.T) {
	server, d := upstream(t)
	noError(t, os.MkdirAll(filepath.Dir(d.images[0]), 0o700))
	for _, image := range d.images {
		noError(t, os.WriteFile(image, []byte("of the node image"), 0o600))
	}
	noError(t, d.run(t.Context()))
	if now := server.requests.Load(); now != 0 {
		t.Errorf("%d requests for existing files", now)
	}
	noError(t, os.Truncate(d.images[0], 5))
	noError(t, d.run(t.Context()))
	d.check(t)
}

// TestDownloadWithChecksums uses no file with another sum, neither an existing one nor one of the server.
func TestDownloadWithChecksums(t *testing.T) {
	server, d := upstream(t)
	for _, image := range d.images {
		d.sums = append(d.sums, strings.ToUpper(fmt.Sprintf("%x", sha256.Sum256([]byte("ipa-centos9-master"+filepath.Ext(image))))))
	}
	noError(t, d.run(t.Context()))
	d.check(t)
	// A damaged file is downloaded again.
	noError(t, os.Remove(d.images[0]))
	noError(t, os.WriteFile(d.images[0], []byte("damaged"), 0o600))
	noError(t, d.run(t.Context()))
	d.check(t)
	requests := server.requests.Load()
	noError(t, d.run(t.Context()))
	if now := server.requests.Load(); now != requests {
		t.Errorf("%d requests for files with the right sums", now-requests)
	}
	// The files of the server differ from the pinned ones.
	d.sums[1] = strings.Repeat("0", 64)
	ctx, stop := context.WithCancel(t.Context())
	d.log = slog.New(slog.NewTextHandler(stopAt{"The download failed", stop, testWriter{t}}, nil))
	if err := d.run(ctx); err == nil || !strings.Contains(err.Error(), "has SHA-256") {
		t.Errorf("with another sum the download ended with %v", err)
	}
}

// stopAt calls stop when a line contains a text.
type stopAt struct {
	text string
	stop func()
	io.Writer
}

func (s stopAt) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(s.text)) {
		s.stop()
	}
	return s.Writer.Write(line)
}

// TestDownloadWithoutAnImage has the ETag of an earlier download, with which the downloader would download nothing.
func TestDownloadWithoutAnImage(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"Deleted": os.Remove,
		"Empty":   func(path string) error { return os.Truncate(path, 0) },
		"Dangling": func(path string) error {
			target, err := os.Readlink(path)
			return errors.Join(err, os.RemoveAll(filepath.Join(filepath.Dir(path), filepath.Dir(target))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, d := upstream(t)
			noError(t, d.run(t.Context()))
			noError(t, spoil(d.images[1]))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			noError(t, d.run(ctx))
			d.check(t)
		})
	}
}

// TestDownloadIsRepeated has failures before and during the transfer. The attempts leave no files.
func TestDownloadIsRepeated(t *testing.T) {
	for name, fail := range map[string]func(*ramdiskServer) *atomic.Bool{
		"Unavailable": func(s *ramdiskServer) *atomic.Bool { return &s.away },
		"Truncated":   func(s *ramdiskServer) *atomic.Bool { return &s.truncates },
		"Stalled":     func(s *ramdiskServer) *atomic.Bool { return &s.stalls },
	} {
		t.Run(name, func(t *testing.T) {
			server, d := upstream(t)
			d.patience = time.Second
			fails := fail(server)
			fails.Store(true)
			ended := make(chan error, 1)
			go func() { ended <- d.run(t.Context()) }()
			limit := time.After(time.Minute / 2)
			for server.requests.Load() < 3 {
				select {
				case err := <-ended:
					t.Fatalf("it ended with %v", err)
				case <-time.After(time.Millisecond):
				case <-limit:
					t.Fatalf("the program ran %d times", server.requests.Load())
				}
			}
			fails.Store(false)
			noError(t, <-ended)
			d.check(t)
			if left, err := os.ReadDir(d.scratch); err != nil || len(left) != 0 {
				t.Errorf("got %v, %v", left, err)
			}
		})
	}
}

func TestDownloadEmptiesItsScratch(t *testing.T) {
	_, d := upstream(t)
	noError(t, d.run(t.Context()))
	noError(t, os.WriteFile(filepath.Join(d.scratch, "left"), []byte("by a killed program"), 0o600))
	noError(t, os.MkdirAll(filepath.Join(d.scratch, "tmp.1", "half"), 0o700))
	noError(t, d.run(t.Context()))
	if left, err := os.ReadDir(d.scratch); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v", left, err)
	}
}

func TestDownloadEnds(t *testing.T) {
	t.Parallel()
	d := download{
		images: []string{filepath.Join(t.TempDir(), "image")}, record: filepath.Join(t.TempDir(), "sums"),
		command: []string{"sleep", "3600"}, pause: time.Hour,
		log: slog.New(slog.DiscardHandler),
	}
	stopped := errors.New("the pod ends")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(stopped) })
	if err := d.run(ctx); !errors.Is(err, stopped) {
		t.Errorf("got %v, want %v", err, stopped)
	}
}
