package entry

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

const (
	// downloadLimit is the time limit of a download.
	downloadLimit = 10 * time.Minute
	// agentName is the name of the files of all archives.
	agentName = "ironic-python-agent"
	// tagFile has the version of the unpacked archive in the same folder.
	tagFile = "tag"
)

// ramdisk is the archive to download, with its target.
type ramdisk struct {
	// server is the URL of the folder of the archive, archive its name.
	server, archive string
	// images is the served folder, scratch one on the same file system.
	images, scratch string
	client          *http.Client
}

// download downloads kernel and ramdisk, unless the present version is that of the server. If the server does not
// answer, it keeps present files.
func download(ctx context.Context, getenv func(string) string, output io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()
	if cache := getenv("CACHEURL"); cache != "" {
		return fmt.Errorf("CACHEURL is %s: a second server is not supported: set IPA_BASEURI", cache)
	}
	ramdisk := newRamdisk(getenv)
	for _, folder := range []string{ramdisk.images, ramdisk.scratch} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	present := ramdisk.present()
	err := ramdisk.fetch(ctx, present, output)
	if err != nil && present != "" {
		fmt.Fprintf(output, "keeping %s: %v\n", present, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("downloading %s from %s: %w", ramdisk.archive, ramdisk.server, err)
	}
	return nil
}

func newRamdisk(getenv func(string) string) ramdisk {
	shared := cmp.Or(getenv("SHARED_DIR"), sharedFolder)
	branch := strings.ReplaceAll(cmp.Or(getenv("IPA_BRANCH"), "master"), "/", "-")
	name := "ipa-" + cmp.Or(getenv("IPA_FLAVOR"), "centos9") + "-" + branch + archiveSuffix
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	//nolint:gosec // The container has no secrets.
	transport.RegisterProtocol("file", http.NewFileTransport(http.Dir("/")))
	if getenv("CURL_INSECURE") == "true" {
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // The client requested it.
	}
	return ramdisk{
		server:  strings.TrimSuffix(cmp.Or(getenv("IPA_BASEURI"), "file://"+RamdiskFolder), "/"),
		archive: cmp.Or(getenv("FILENAME"), name),
		images:  filepath.Join(shared, "html", "images"),
		scratch: filepath.Join(shared, "tmp"),
		client:  &http.Client{Transport: transport},
	}
}

// present returns the version of the present files. Empty if one is missing.
func (r ramdisk) present() string {
	for _, name := range []string{agentName + ".kernel", agentName + ".initramfs"} {
		if status, err := os.Stat(filepath.Join(r.images, name)); err != nil || status.Size() == 0 {
			return ""
		}
	}
	kernel, err := os.Readlink(filepath.Join(r.images, agentName+".kernel"))
	if err != nil || !strings.HasPrefix(kernel, r.archive+"-") {
		return ""
	}
	tag, err := os.ReadFile(filepath.Join(r.images, filepath.Dir(kernel), tagFile))
	if err != nil {
		return ""
	}
	return string(tag)
}

// fetch downloads the archive and installs it, unless the server has the present version.
func (r ramdisk) fetch(ctx context.Context, present string, output io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server+"/"+r.archive, http.NoBody)
	if err != nil {
		return err
	}
	if strings.Contains(present, `"`) {
		request.Header.Set("If-None-Match", present)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNotModified {
		return errors.New(response.Status)
	}
	tag := versionOf(response)
	if response.StatusCode == http.StatusNotModified || tag == present {
		fmt.Fprintf(output, "%s is still %s\n", r.archive, present)
		return nil
	}
	if err := r.install(response.Body, tag); err != nil {
		return err
	}
	fmt.Fprintf(output, "downloaded %s, which is %s\n", r.archive, tag)
	return nil
}

// versionOf returns the ETag of a response, or its size if there is none.
func versionOf(response *http.Response) string {
	return cmp.Or(response.Header.Get("ETag"), "size-"+response.Header.Get("Content-Length"))
}

// install unpacks an archive next to others, and then replaces the served links.
func (r ramdisk) install(archive io.Reader, tag string) error {
	partial, err := os.MkdirTemp(r.scratch, "ramdisk-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(partial) }()
	if err := unpack(archive, partial); err != nil {
		return fmt.Errorf("unpacking it: %w", err)
	}
	stem := strings.TrimSuffix(r.archive, archiveSuffix)
	for _, suffix := range []string{".kernel", ".initramfs"} {
		if status, err := os.Stat(filepath.Join(partial, stem+suffix)); err != nil || status.Size() == 0 {
			return fmt.Errorf("it has no %s%s", stem, suffix)
		}
	}
	if err := os.WriteFile(filepath.Join(partial, tagFile), []byte(tag), 0o600); err != nil {
		return err
	}
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	folder := r.archive + "-" + strings.Map(harmless, tag)
	final := filepath.Join(r.images, folder)
	if err := os.RemoveAll(final); err != nil {
		return err
	}
	if err := os.Rename(partial, final); err != nil {
		return err
	}
	// The kernel, which defines the version, comes last.
	for _, suffix := range []string{".initramfs", ".kernel"} {
		if err := replaceLink(path.Join(folder, stem+suffix), filepath.Join(r.images, agentName+suffix)); err != nil {
			return err
		}
	}
	return nil
}

// harmless replaces characters that a file name must not have.
func harmless(letter rune) rune {
	switch {
	case letter >= 'a' && letter <= 'z', letter >= 'A' && letter <= 'Z', letter >= '0' && letter <= '9', letter == '-':
		return letter
	default:
		return -1
	}
}

// replaceLink replaces a symbolic link atomically.
func replaceLink(target, link string) error {
	partial := link + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.Symlink(target, partial); err != nil {
		return err
	}
	return os.Rename(partial, link)
}

// unpack writes the files of a compressed archive to a folder, without the folders of the archive.
func unpack(content io.Reader, folder string) error {
	uncompressed, err := gzip.NewReader(content)
	if err != nil {
		return err
	}
	archive := tar.NewReader(uncompressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeFile(filepath.Join(folder, path.Base(path.Clean("/"+header.Name))), archive); err != nil {
			return err
		}
	}
}

func writeFile(name string, content io.Reader) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
