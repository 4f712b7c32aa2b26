package bmc

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// NodeImage is the name of the image that makes a node of a machine.
const NodeImage = "node"

const (
	imageSuffix    = ".img"
	mediumSuffix   = ".iso"
	checksumSuffix = ".sha256sum"
)

var imageName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// manifest is the content of an image.
type manifest struct {
	// RootFS is the key of the root file system.
	RootFS string `json:"rootfs"`
}

// imageFile is an image that is served.
type imageFile struct {
	content []byte
	made    time.Time
	missing bool
	// held is nil, or closed when who downloads the image may go on.
	held <-chan struct{}
	// waiting counts the downloads that are held.
	waiting *atomic.Int32
}

// ImageURL is the address of an image.
func ImageURL(name string) string { return "http://" + ImagesAddress + "/images/" + name + imageSuffix }

// MediumURL is the address of a medium.
func MediumURL(name string) string {
	return "http://" + ImagesAddress + "/images/" + name + mediumSuffix
}

// ChecksumURL is the address of the file that has the SHA-256 checksum of an image, as sha256sum(1) writes it.
func ChecksumURL(name string) string { return ImageURL(name) + checksumSuffix }

// AddImage serves an image of the root file system that a key names. An image of that name is replaced.
func (s *Server) AddImage(name, rootKey string) error {
	if !imageName.MatchString(name) || strings.HasSuffix(name, mediumSuffix) {
		return fmt.Errorf("the name of the image is %q: use lower-case letters, digits, - and ., with a letter or a digit at "+
			"both ends, and another suffix than %s", name, mediumSuffix)
	}
	content, err := json.Marshal(manifest{RootFS: rootKey})
	if err != nil {
		return fmt.Errorf("writing the image %s: %w", name, err)
	}
	s.serve(name, append(content, '\n'))
	return nil
}

// AddMedium serves a medium that machines boot from, an ISO 9660 image. A medium of that name is replaced.
func (s *Server) AddMedium(name string, content []byte) { s.serve(name+mediumSuffix, content) }

func (s *Server) serve(name string, content []byte) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.images[name] = &imageFile{content: content, made: time.Now(), waiting: &atomic.Int32{}}
}

// SetImageMissing makes the server answer 404 for an image and its checksum, or serve them again.
func (s *Server) SetImageMissing(name string, missing bool) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.images[name]
	if found == nil {
		return fmt.Errorf("there is no image %s", name)
	}
	found.missing = missing
	return nil
}

// HoldImage delays downloads of an image until it is released, as if it were large. Requests for its headers and its
// checksum are answered at once. It may be released several times.
func (s *Server) HoldImage(name string) (release func(), err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.images[name]
	if found == nil {
		return nil, fmt.Errorf("there is no image %s", name)
	}
	held := make(chan struct{})
	found.held = held
	return sync.OnceFunc(func() { close(held) }), nil
}

// Held is how many agents wait for an image that is held.
func (s *Server) Held(name string) int {
	found, _ := s.image(name)
	if found.waiting == nil {
		return 0
	}
	return int(found.waiting.Load())
}

// Checksum is the SHA-256 checksum of an image, in hexadecimal digits.
func (s *Server) Checksum(name string) (string, error) {
	found, exists := s.image(name)
	if !exists {
		return "", fmt.Errorf("there is no image %s", name)
	}
	return fmt.Sprintf("%x", sha256.Sum256(found.content)), nil
}

// image finds an image that is not missing.
func (s *Server) image(name string) (imageFile, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.images[name]
	if found == nil || found.missing {
		return imageFile{}, false
	}
	return *found, true
}

func (s *Server) imageHandler() http.Handler {
	mux := http.NewServeMux()
	// The pattern for GET is the one for HEAD too, with which Ironic looks whether an image is there.
	mux.HandleFunc("GET /images/{file}", func(writer http.ResponseWriter, request *http.Request) {
		file, wantsChecksum := strings.CutSuffix(request.PathValue("file"), checksumSuffix)
		name, isImage := strings.CutSuffix(file, imageSuffix)
		found, exists := s.image(name)
		if isMedium := strings.HasSuffix(name, mediumSuffix); isImage == isMedium || !exists {
			http.NotFound(writer, request)
			return
		}
		content := found.content
		if wantsChecksum {
			content = fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(found.content), file)
		} else if request.Method == http.MethodGet && found.held != nil {
			found.waiting.Add(1)
			defer found.waiting.Add(-1)
			select {
			case <-found.held:
			case <-request.Context().Done():
				return
			}
		}
		// Otherwise the type is guessed from the name, and .img is none that is known everywhere.
		writer.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(writer, request, "", found.made, bytes.NewReader(content))
	})
	return mux
}
