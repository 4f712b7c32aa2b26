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

// NodeImage is the name of the image of nodes.
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

type imageFile struct {
	content []byte
	made    time.Time
	// held is closed when held downloads may continue. Nil without a hold.
	held <-chan struct{}
	// waiting is the number of held downloads.
	waiting *atomic.Int32
}

// ImageURL returns the URL of an image.
func ImageURL(name string) string { return "http://" + ImagesAddress + "/images/" + name + imageSuffix }

// MediumURL returns the URL of a medium.
func MediumURL(name string) string {
	return "http://" + ImagesAddress + "/images/" + name + mediumSuffix
}

// ChecksumURL returns the URL of the file with the SHA-256 checksum of an image, in the format of sha256sum(1).
func ChecksumURL(name string) string { return ImageURL(name) + checksumSuffix }

// AddImage serves an image with a root file system, and replaces an image with the same name.
func (s *Server) AddImage(name, rootKey string) error {
	if !imageName.MatchString(name) || strings.HasSuffix(name, mediumSuffix) {
		return fmt.Errorf("the name of the image is %q: use lower-case letters, digits, - and ., with a letter or a digit "+
			"at both ends, and another suffix than %s", name, mediumSuffix)
	}
	content, err := json.Marshal(manifest{RootFS: rootKey})
	if err != nil {
		return fmt.Errorf("writing the image %s: %w", name, err)
	}
	s.serve(name, append(content, '\n'))
	return nil
}

// AddMedium serves a bootable medium, an ISO 9660 image, and replaces a medium with the same name.
func (s *Server) AddMedium(name string, content []byte) { s.serve(name+mediumSuffix, content) }

func (s *Server) serve(name string, content []byte) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.images[name] = &imageFile{content: content, made: time.Now(), waiting: &atomic.Int32{}}
}

// HoldImage holds downloads of an image until release is called, as for a large image. Requests for its headers and its
// checksum are answered at once. release may be called several times.
func (s *Server) HoldImage(name string) (release func(), err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.images[name]
	if found == nil {
		return nil, fmt.Errorf("image %s does not exist", name)
	}
	held := make(chan struct{})
	found.held = held
	return sync.OnceFunc(func() { close(held) }), nil
}

// Held returns the number of held downloads of an image.
func (s *Server) Held(name string) int {
	found, _ := s.image(name)
	if found.waiting == nil {
		return 0
	}
	return int(found.waiting.Load())
}

// Checksum returns the SHA-256 checksum of an image, in hexadecimal digits.
func (s *Server) Checksum(name string) (string, error) {
	found, exists := s.image(name)
	if !exists {
		return "", fmt.Errorf("image %s does not exist", name)
	}
	return fmt.Sprintf("%x", sha256.Sum256(found.content)), nil
}

// image returns an image if it exists.
func (s *Server) image(name string) (imageFile, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.images[name]
	if found == nil {
		return imageFile{}, false
	}
	return *found, true
}

func (s *Server) imageHandler() http.Handler {
	mux := http.NewServeMux()
	// The pattern for GET includes HEAD, with which Ironic checks that an image exists.
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
		// Otherwise the server guesses the type from the name, and .img is not defined everywhere.
		writer.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(writer, request, "", found.made, bytes.NewReader(content))
	})
	return mux
}
