package endpoint

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/endpoint/entry"
)

// ramdiskText is the content of the files of the ramdisk, after their names. A machine of a lab reads only the
// parameters, and boots package agent.
const ramdiskText = ": for the lab, whose machines boot none of it\n"

// Ramdisk returns an archive in the format of the Ironic Python Agent: kernel and ramdisk in a compressed tar file. It
// is always the same.
func Ramdisk() ([]byte, error) {
	var content bytes.Buffer
	compressed := gzip.NewWriter(&content)
	archive := tar.NewWriter(compressed)
	for _, name := range []string{entry.RamdiskKernel, entry.RamdiskInitramfs} {
		text := name + ramdiskText
		err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))})
		if err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			return nil, err
		}
	}
	err := errors.Join(archive.Close(), compressed.Close())
	return content.Bytes(), err
}

// RamdiskHandler serves the archive of Ramdisk with an ETag, for a downloader with the address of the handler in
// IPA_BASEURI.
func RamdiskHandler() (http.Handler, error) {
	archive, err := Ramdisk()
	if err != nil {
		return nil, err
	}
	tag := `"` + hash(string(archive)) + `"`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+entry.RamdiskArchive, func(writer http.ResponseWriter, request *http.Request) {
		writer.Header().Set("ETag", tag)
		writer.Header().Set("Content-Type", "application/gzip")
		http.ServeContent(writer, request, "", time.Time{}, bytes.NewReader(archive))
	})
	return mux, nil
}
