package pivot

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"strings"
)

const (
	// largestPlain is the length in bytes of the longest JSON that is not compressed. All annotations of an object have at
	// most 256 KiB, a ConfigMap has at most 1 MiB.
	largestPlain = 32 << 10

	// largestUnpacked is the length in bytes to which JSON is uncompressed at most. It is enough for the inventory of
	// 50,000 Machines, and for the departure of 50,000 hosts.
	largestUnpacked = 16 << 20

	// compressed begins a text that is JSON compressed with gzip, in base64.
	compressed = "gzip:"
)

// pack returns JSON as text. It compresses long JSON.
func pack(content []byte) string {
	if len(content) <= largestPlain {
		return string(content)
	}
	var packed bytes.Buffer
	// Writing into a buffer returns no error.
	writer, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = writer.Write(content)
	_ = writer.Close()
	return compressed + base64.StdEncoding.EncodeToString(packed.Bytes())
}

// unpack returns the JSON of a text, which may be compressed.
func unpack(text string) ([]byte, error) {
	packed, isPacked := strings.CutPrefix(text, compressed)
	if !isPacked {
		return []byte(text), nil
	}
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed)))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(reader, largestUnpacked))
}
