package agent

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestImages has the ways to set the checksum of an image.
// Source: ironic 29, drivers/modules/deploy_utils.py; ironic-python-agent 10.2, extensions/standby.py.
func TestImages(t *testing.T) {
	const image, content = "http://images/node.img", "content"
	sum256, sum512 := fmt.Sprintf("%x", sha256.Sum256([]byte(content))), fmt.Sprintf("%x", sha512.Sum512([]byte(content)))
	files := map[string]string{
		image: content, "http://images/list": strings.Repeat("0", 64) + "  other.img\n" + sum256 + " *node.img\n",
		"http://images/bare": sum512 + "\n", "http://images/short": sum256 + "  other.img\n",
	}
	download := func(_ context.Context, url string) ([]byte, error) {
		if found, exists := files[url]; exists {
			return []byte(found), nil
		}
		return nil, errors.New("404 Not Found")
	}
	for name, test := range map[string]struct {
		info   imageInfo
		reason string
		// fails is the type of the error.
		fails, says string
	}{
		"explicit":        {reason: "algorithm and value", info: imageInfo{Algorithm: "sha256", Value: sum256}},
		"long":            {reason: "the other algorithm", info: imageInfo{Algorithm: "sha512", Value: sum512}},
		"implicit":        {reason: "the length defines the algorithm", info: imageInfo{Checksum: strings.ToUpper(sum512)}},
		"list":            {reason: "a line of a file", info: imageInfo{Algorithm: "sha256", Value: "http://images/list"}},
		"bare":            {reason: "a file with one checksum", info: imageInfo{Checksum: "http://images/bare"}},
		"wrong":           {reason: "another content", info: imageInfo{Value: strings.Repeat("0", 64)}, fails: "ImageChecksumError", says: sum256},
		"weak":            {reason: "MD5 is refused", info: imageInfo{Checksum: strings.Repeat("0", 32)}, fails: "ImageChecksumError", says: "use sha256"},
		"contradiction":   {reason: "value of another algorithm", info: imageInfo{Algorithm: "sha512", Value: sum256}, fails: "ImageChecksumError", says: "sha512"},
		"not in the list": {reason: "a list of other images", info: imageInfo{Value: "http://images/short"}, fails: "ImageChecksumError", says: "no line for node.img"},
		"no list":         {reason: "the file is missing", info: imageInfo{Value: "http://images/none"}, fails: "ImageChecksumError", says: "404"},
		"no image":        {reason: "the image is missing", info: imageInfo{URLs: []string{"http://images/none"}, Value: sum256}, fails: "ImageDownloadError", says: "404"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.info.URLs == nil {
				test.info.URLs = []string{image}
			}
			got, err := test.info.fetch(t.Context(), download)
			var known *commandError
			switch {
			case test.fails == "" && (err != nil || string(got) != content):
				t.Errorf("%s: got %q, %v", test.reason, got, err)
			case test.fails != "" && (!errors.As(err, &known) || known.Type != test.fails || !strings.Contains(known.Details, test.says)):
				t.Errorf("%s: got %v, want %s with %q", test.reason, err, test.fails, test.says)
			}
		})
	}
}
