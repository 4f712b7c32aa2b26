package bootdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"regexp"
	"strings"
)

// maxUnpacked limits the bytes of decompressed user data, so that a small Secret cannot fill the memory.
const maxUnpacked = 16 * Limit

// kind is the kind of user data, or of a part of it, for cloud-init.
type kind int

const (
	unknown kind = iota
	cloudConfig
	jinjaConfig // a cloud-config after jinja rendered it
	jinjaOther
	archive
	jsonPatch
	multipart // MIME, with or without parts
	opaque    // scripts, includes, handlers: nothing that names files in a way that can be read
)

// beginnings are the prefixes by which cloud-init recognizes user data, longer ones before their own prefixes.
var beginnings = []struct {
	text string
	kind kind
}{
	{"## template: jinja", jinjaOther},
	{"#cloud-config-archive", archive},
	{"#cloud-config-jsonp", jsonPatch},
	{"#cloud-config", cloudConfig},
	{"#cloud-boothook", opaque},
	{"#part-handler", opaque},
	{"#include", opaque},
	{"#!", opaque},
}

var (
	gzipMagic      = []byte{0x1f, 0x8b}
	mimeHeader     = regexp.MustCompile(`(?i)^(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*)*mime-version:`)
	templateHeader = regexp.MustCompile(`(?i)^##\s*template:\s*jinja\s*$`)
)

// errNotPlain says that data is neither user data nor packed user data.
var errNotPlain = errors.New("it does not start as cloud-init user data does, for example with #cloud-config")

// kindOf returns the kind for the prefix.
func kindOf(data []byte) kind {
	if mimeHeader.Match(data[:min(len(data), 4096)]) {
		return multipart
	}
	found := startsAs(data)
	if found != jinjaOther {
		return found
	}
	header, rest, _ := bytes.Cut(data, []byte("\n"))
	if templateHeader.Match(header) && startsAs(rest) == cloudConfig {
		return jinjaConfig
	}
	return jinjaOther
}

func startsAs(data []byte) kind {
	start := bytes.TrimSpace(data)
	start = bytes.ToLower(start[:min(len(start), 32)])
	for _, known := range beginnings {
		if bytes.HasPrefix(start, []byte(known.text)) {
			return known.kind
		}
	}
	return unknown
}

// packing is the compression and encoding of user data.
type packing struct {
	base64, gzip bool
	// tail is the white space after base64.
	tail string
}

// unpack returns the user data and its packing.
func unpack(data []byte) ([]byte, packing, error) {
	var how packing
	if kindOf(data) != unknown {
		return data, how, nil
	}
	if text := strings.TrimSpace(string(data)); text != "" && !bytes.HasPrefix(data, gzipMagic) {
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, how, &UnparsableError{Format: CloudConfig, Err: errNotPlain}
		}
		how.base64, how.tail = true, string(data[bytes.LastIndexByte(data, text[len(text)-1])+1:])
		data = decoded
	}
	if bytes.HasPrefix(data, gzipMagic) {
		unpacked, err := gunzip(data)
		if err != nil {
			return nil, how, err
		}
		how.gzip, data = true, unpacked
	}
	if kindOf(data) == unknown {
		return nil, how, &UnparsableError{Format: CloudConfig, Err: errNotPlain}
	}
	return data, how, nil
}

func gunzip(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, unparsable(CloudConfig, "decompressing: %w", err)
	}
	unpacked, err := io.ReadAll(io.LimitReader(reader, maxUnpacked+1))
	if err != nil {
		return nil, unparsable(CloudConfig, "decompressing: %w", err)
	}
	if len(unpacked) > maxUnpacked {
		return nil, &TooLargeError{Size: len(unpacked), Before: len(data), Limit: maxUnpacked}
	}
	return unpacked, nil
}

// pack is the inverse of unpack. Its gzip has no time and no name: the same data gives the same bytes.
func (how packing) pack(data []byte) ([]byte, error) {
	if how.gzip {
		var packed bytes.Buffer
		writer := gzip.NewWriter(&packed)
		if _, err := writer.Write(data); err != nil {
			return nil, unparsable(CloudConfig, "compressing: %w", err)
		}
		if err := writer.Close(); err != nil {
			return nil, unparsable(CloudConfig, "compressing: %w", err)
		}
		data = packed.Bytes()
	}
	if how.base64 {
		data = []byte(base64.StdEncoding.EncodeToString(data) + how.tail)
	}
	return data, nil
}

// addToUserData adds the files to data for cloud-init.
func addToUserData(packed []byte, files []File) ([]byte, error) {
	data, how, err := unpack(packed)
	if err != nil {
		return nil, err
	}
	original := withoutOwn(data)
	added := original
	if len(files) > 0 {
		added, err = addPlain(original, files)
		if err != nil {
			return nil, err
		}
	}
	if bytes.Equal(added, data) {
		return packed, nil
	}
	return how.pack(added)
}

// addPlain adds files to user data without own files.
func addPlain(data []byte, files []File) ([]byte, error) {
	kind := kindOf(data)
	if kind == cloudConfig || kind == jinjaConfig {
		return addToDocument(readDocument(data, kind == jinjaConfig), files)
	}
	written, err := writtenByUserData(data, 0)
	if err == nil {
		err = written.conflicts(files)
	}
	switch {
	case err != nil:
		return nil, err
	case kind == multipart:
		return addPart(data, files)
	default:
		return wrap(data, config(files)), nil
	}
}

func addToDocument(read document, files []File) ([]byte, error) {
	written, err := read.written()
	if err == nil {
		err = written.conflicts(files)
	}
	if err != nil {
		return nil, err
	}
	if added, ok := read.add(files); ok {
		return added, nil
	}
	return wrap(read.text, config(files)), nil
}

// withoutOwn returns the user data before files were added. Files are own ones only if adding them again gives the same
// bytes.
func withoutOwn(data []byte) []byte {
	if inner, ok := unwrap(data); ok {
		return inner
	}
	switch kindOf(data) {
	case multipart:
		return withoutPart(data)
	case cloudConfig, jinjaConfig:
		return withoutBlock(data)
	}
	return data
}
