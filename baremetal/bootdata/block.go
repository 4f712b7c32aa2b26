package bootdata

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	blockBegin = "# metal3-files begin sha256:"
	blockEnd   = "# metal3-files end\n"
)

// block returns the lines between the comments that mark an own block.
func block(lines string) string {
	return blockBegin + sum([]byte(lines)) + "\n" + lines + blockEnd
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}

// findBlock returns the start of the first intact block and the end of its last line.
func findBlock(data []byte) (start, end int, found bool) {
	for at := 0; ; at++ {
		next := bytes.Index(data[at:], []byte(blockBegin))
		if next < 0 {
			return 0, 0, false
		}
		at += next
		if at > 0 && data[at-1] != '\n' {
			continue
		}
		if length := blockLength(data[at:]); length > 0 {
			return at, at + length, true
		}
	}
}

// blockLength returns the length of the intact block with which data starts, or zero. A block ends before the next one
// begins, so that a search for a block reads each byte a fixed number of times.
func blockLength(data []byte) int {
	header := len(blockBegin) + hex.EncodedLen(sha256.Size) + 1
	if len(data) < header || data[header-1] != '\n' {
		return 0
	}
	wanted := string(data[len(blockBegin) : header-1])
	lines := data[header-1:]
	if next := bytes.Index(lines, []byte("\n"+blockBegin)); next >= 0 {
		lines = lines[:next+1]
	}
	end := bytes.Index(lines, []byte("\n"+blockEnd))
	if end < 0 || sum(data[header:header+end]) != wanted {
		return 0
	}
	return header + end + len(blockEnd)
}

// items renders the files as items of write_files.
func items(files []File, indent int) string {
	var out strings.Builder
	first, more := strings.Repeat(" ", indent)+"- ", strings.Repeat(" ", indent+2)
	for _, file := range files {
		// Both strings are quoted: base64 alone may be a number or null in YAML.
		fmt.Fprintf(&out, "%spath: %q\n", first, file.Path)
		fmt.Fprintf(&out, "%sowner: root:root\n", more)
		fmt.Fprintf(&out, "%spermissions: '%04o'\n", more, file.Mode)
		fmt.Fprintf(&out, "%sencoding: b64\n", more)
		fmt.Fprintf(&out, "%scontent: %q\n", more, base64.StdEncoding.EncodeToString(file.Content))
	}
	return out.String()
}

// itemNodes returns the nodes of items. They are built and not parsed, so that a comparison verifies items.
func itemNodes(files []File) *yaml.Node {
	scalar := func(style yaml.Style, value string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Style: style, Tag: "!!str", Value: value}
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, file := range files {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{
			scalar(0, "path"), scalar(yaml.DoubleQuotedStyle, file.Path),
			scalar(0, "owner"), scalar(0, "root:root"),
			scalar(0, "permissions"), scalar(yaml.SingleQuotedStyle, fmt.Sprintf("%04o", file.Mode)),
			scalar(0, "encoding"), scalar(0, "b64"),
			scalar(0, "content"), scalar(yaml.DoubleQuotedStyle, base64.StdEncoding.EncodeToString(file.Content)),
		}})
	}
	return list
}
