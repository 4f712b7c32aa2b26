package agent

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// imageLimit is the maximum size of an image of a lab in bytes: an image only names a root file system.
const imageLimit = 1 << 20

// imageInfo is an image in the format of Ironic.
type imageInfo struct {
	URLs      []string `json:"urls"`
	Checksum  string   `json:"checksum"`
	Algorithm string   `json:"os_hash_algo"`
	Value     string   `json:"os_hash_value"`
}

// downloader downloads the content of a URL.
type downloader func(ctx context.Context, url string) ([]byte, error)

// download downloads over the network of the machine.
func (a *Agent) download(ctx context.Context, address string) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: a.Dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, imageLimit+1))
	if err == nil && len(content) > imageLimit {
		err = fmt.Errorf("it has more than %d bytes", imageLimit)
	}
	return content, err
}

// fetch downloads an image and compares it with its checksum.
func (i imageInfo) fetch(ctx context.Context, download downloader) ([]byte, error) {
	if len(i.URLs) == 0 {
		return nil, errors.New("the image has no URL")
	}
	address := i.URLs[0]
	content, err := download(ctx, address)
	if err != nil {
		return nil, failure("ImageDownloadError", "Error downloading image", fmt.Sprintf("%s: %v", address, err))
	}
	algorithm, wanted, err := i.checksum(ctx, download)
	if err != nil {
		return nil, failure("ImageChecksumError", "Error verifying image checksum", err.Error())
	}
	sum := algorithm()
	sum.Write(content)
	if actual := fmt.Sprintf("%x", sum.Sum(nil)); actual != wanted {
		return nil, failure("ImageChecksumError", "Error verifying image checksum",
			fmt.Sprintf("image %s should have the checksum %s and has %s", address, wanted, actual))
	}
	return content, nil
}

func failure(kind, message, details string) error {
	return &commandError{kind, http.StatusInternalServerError, message, details}
}

// checksum returns the algorithm and the checksum of the image. The value may be in a file. Without the name of an
// algorithm, the length defines it.
func (i imageInfo) checksum(ctx context.Context, download downloader) (func() hash.Hash, string, error) {
	value := i.Value
	if value == "" {
		value = i.Checksum
	}
	if strings.Contains(value, "://") {
		content, err := download(ctx, value)
		if err != nil {
			return nil, "", fmt.Errorf("downloading %s: %w", value, err)
		}
		if value, err = inFile(content, i.URLs[0]); err != nil {
			return nil, "", err
		}
	}
	value = strings.ToLower(strings.TrimSpace(value))
	known := map[int]struct {
		name string
		hash func() hash.Hash
	}{2 * sha256.Size: {"sha256", sha256.New}, 2 * sha512.Size: {"sha512", sha512.New}}
	found, exists := known[len(value)]
	if !exists || i.Algorithm != "" && i.Algorithm != found.name {
		return nil, "", fmt.Errorf("%q is not a checksum of the algorithm %q: use sha256 or sha512", value, i.Algorithm)
	}
	return found.hash, value, nil
}

// inFile returns the checksum of an image from a file of lines with a checksum and a name, or of one checksum.
func inFile(content []byte, image string) (string, error) {
	parsed, err := url.Parse(image)
	if err != nil {
		return "", err
	}
	name := path.Base(parsed.Path)
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		switch words := strings.Fields(lines.Text()); {
		case len(words) == 1:
			return words[0], nil
		case len(words) == 2 && strings.TrimPrefix(words[1], "*") == name:
			return words[0], nil
		}
	}
	return "", fmt.Errorf("the file of checksums has no line for %s", name)
}
