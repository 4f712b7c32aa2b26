package main

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

const (
	partBegin = "<!-- generated: "
	partEnd   = "<!-- end of generated part -->"
	markEnd   = " -->"
)

// documents returns the Markdown files for users, relative to the root of the checkout.
func documents(root string) ([]string, error) {
	files := []string{"README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		name, err := filepath.Rel(root, path)
		files = append(files, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for documents: %w", err)
	}
	return files, nil
}

// fillIn replaces the generated parts of a document.
func fillIn(document string, parts map[string]string) (string, error) {
	var filled strings.Builder
	rest := document
	for {
		before, after, found := strings.Cut(rest, partBegin)
		filled.WriteString(before)
		if !found {
			return filled.String(), nil
		}
		name, after, closed := strings.Cut(after, markEnd+"\n")
		content, known := parts[name]
		if !closed || !known {
			return "", fmt.Errorf("part %q is unknown, use one of %s", name,
				strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
		}
		_, after, ended := strings.Cut(after, partEnd)
		if !ended {
			return "", fmt.Errorf("part %q has no end, add the line %s", name, partEnd)
		}
		filled.WriteString(partBegin + name + markEnd + "\n\n" + content + "\n" + partEnd)
		rest = after
	}
}

// table returns a Markdown table. It escapes characters that would end a cell.
func table(head []string, rows [][]string) string {
	var text strings.Builder
	line := func(cells []string) {
		text.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(head)
	line(slices.Repeat([]string{"---"}, len(head)))
	for _, row := range rows {
		cells := make([]string, 0, len(row))
		for _, cell := range row {
			cells = append(cells, strings.ReplaceAll(cell, "|", `\|`))
		}
		line(cells)
	}
	return text.String()
}
