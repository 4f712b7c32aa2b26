package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// documentName is the document with rendered files.
	documentName = "docs/ironic-endpoint.md"

	fileBegin = "<!-- file: "
	fileEnd   = "<!-- end of file -->"
	markEnd   = " -->\n"
)

// document returns the document with the current files. Each file is between two comments. The first comment has its
// path, relative to baremetal.
func document(root string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(root, documentName))
	if err != nil {
		return nil, fmt.Errorf("reading a document: %w", err)
	}
	var filled strings.Builder
	rest := string(content)
	for {
		before, after, found := strings.Cut(rest, fileBegin)
		filled.WriteString(before)
		if !found {
			return []byte(filled.String()), nil
		}
		name, after, closed := strings.Cut(after, markEnd)
		_, after, ended := strings.Cut(after, fileEnd)
		if !closed || !ended {
			return nil, fmt.Errorf("%s: file %q has no end, add the line %s", documentName, name, fileEnd)
		}
		shown, err := os.ReadFile(filepath.Join(root, "baremetal", filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("filling in %s: %w", documentName, err)
		}
		filled.WriteString(fileBegin + name + markEnd + "\n```text\n" + string(shown) + "```\n\n" + fileEnd)
		rest = after
	}
}
