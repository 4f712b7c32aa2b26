package iso_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/iso"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/iso/isotest"
)

func TestImagesAreReadAsTheyWerePacked(t *testing.T) {
	files := map[string]string{
		"openstack/latest/meta_data.json":                `{"name": "one"}`,
		"openstack/latest/network_data.json":             `{}`,
		"openstack/latest/user_data":                     "#cloud-config\n",
		"openstack/2012-08-10/meta_data.json":            `{"name": "one"}`,
		"openstack/content/A file, with a Long Name.x.y": strings.Repeat("0123456789", 50000),
		"empty": "",
	}
	// Ironic uses the first installed one. The options omit the Rock Ridge names.
	for maker, plain := range map[string][]string{"genisoimage": nil, "mkisofs": nil, "xorrisofs": {"--norock"}} {
		t.Run(maker, func(t *testing.T) {
			image := isotest.Make(t, maker, files, "-J", "-r")
			read, err := iso.ReadPacked(strings.NewReader(pack(t, image)))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for name, content := range read {
				got[name] = string(content)
			}
			if diff := cmp.Diff(files, got); diff != "" {
				t.Errorf("the files (-want +got):\n%s", diff)
			}
			for _, part := range []int{len(image) / 20, len(image) / 4, len(image) / 2} {
				if _, err := iso.Read(image[:part]); err == nil {
					t.Errorf("%d of %d bytes of an image were accepted", part, len(image))
				}
			}
			_, err = iso.Read(isotest.Make(t, maker, files, plain...))
			if err == nil || !strings.Contains(err.Error(), "Rock Ridge") {
				t.Errorf("with truncated names: %v", err)
			}
		})
	}
	if _, err := iso.ReadPacked(strings.NewReader("bm90IGd6aXA=")); err == nil || !strings.Contains(err.Error(), "gzip in base64") {
		t.Errorf("without gzip: %v", err)
	}
}

// pack compresses an image as Ironic stores it, with line breaks.
func pack(t *testing.T, image []byte) string {
	t.Helper()
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write(image); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString(compressed.Bytes())
	half := len(encoded) / 2
	return encoded[:half] + "\n" + encoded[half:] + "\n"
}
