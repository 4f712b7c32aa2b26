package bootdata

import (
	"bytes"
	"errors"
	"io"
	"regexp"

	"go.yaml.in/yaml/v3"
)

const (
	writeFiles = "write_files"
	mergeKey   = "<<"
)

// listLine matches a line that opens the list and contains nothing else.
var listLine = regexp.MustCompile(`^(?:write_files|"write_files"|'write_files')[ \t]*:[ \t]*(?:#.*)?\r?$`)

// quotedAnchor matches the only part of an error of the parser that quotes the document.
var quotedAnchor = regexp.MustCompile(`unknown anchor '[^']*'`)

// place is the position of a block in the text of a cloud-config.
type place struct {
	// offset is the start of a line.
	offset int
	// indent is the indentation of the items of the list.
	indent int
	// key says that the block must open the list.
	key bool
}

// parse parses the single document of a YAML text. The node is nil if the document is empty. Its errors contain no
// content of the document.
func parse(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, more yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, errors.New(quotedAnchor.ReplaceAllLiteralString(err.Error(), "unknown anchor"))
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document")
	}
	return document.Content[0], nil
}

// document is the text of a cloud-config with its nodes. It is parsed once.
type document struct {
	text []byte
	// template says that jinja renders the text first.
	template bool
	// root is nil if the document is empty or cannot be parsed.
	root    *yaml.Node
	problem error
}

func readDocument(text []byte, template bool) document {
	root, err := parse(text)
	return document{text: text, template: template, root: root, problem: err}
}

// add inserts the files into the text. It returns false if no position is certain.
func (d document) add(files []File) ([]byte, bool) {
	where, ok := d.findPlace()
	if !ok {
		return nil, false
	}
	lines := items(files, where.indent)
	if where.key {
		lines = writeFiles + ":\n" + lines
	}
	added := insert(d.text, where.offset, block(lines))
	return added, addsOnly(added, d.root, files)
}

// withoutBlock is the inverse of add.
func withoutBlock(data []byte) []byte {
	start, end, found := findBlock(data)
	if !found {
		return data
	}
	rest := cut(data, start, end)
	if where, ok := readDocument(rest, kindOf(rest) == jinjaConfig).findPlace(); !ok || where.offset != start {
		return data
	}
	return rest
}

// findPlace returns the position of a block.
func (d document) findPlace() (place, bool) {
	if d.template && !onlyExpressions(d.text) {
		return place{}, false
	}
	if d.root == nil || !plainBlock(d.root, yaml.MappingNode) || d.root.Column != 1 {
		return place{}, false
	}
	key, list, single := findList(d.root)
	if !single {
		return place{}, false
	}
	if list == nil {
		return beforeFirstKey(d.text, d.root.Content[0])
	}
	return inList(d.text, key, list)
}

// findList returns the list of files with its key, or nil. It returns false if there is a second list, or an alias.
func findList(root *yaml.Node) (key, list *yaml.Node, single bool) {
	for i := 0; i < len(root.Content); i += 2 {
		switch root.Content[i].Value {
		case writeFiles:
			if key != nil {
				return nil, nil, false
			}
			key, list = root.Content[i], root.Content[i+1]
		case mergeKey:
			return nil, nil, false
		}
	}
	return key, list, true
}

// plainBlock returns true for a collection in block style, without a tag.
func plainBlock(node *yaml.Node, kind yaml.Kind) bool {
	return node.Kind == kind && node.Style == 0 && len(node.Content) > 0
}

// onlyExpressions returns true if jinja only replaces expressions within a line of the text.
func onlyExpressions(data []byte) bool {
	if bytes.Contains(data, []byte("{%")) || bytes.Contains(data, []byte("{#")) {
		return false
	}
	for line := range bytes.Lines(data) {
		if bytes.Count(line, []byte("{{")) != bytes.Count(line, []byte("}}")) {
			return false
		}
	}
	return true
}

func inList(data []byte, key, list *yaml.Node) (place, bool) {
	if !plainBlock(list, yaml.SequenceNode) || key.Column != 1 || list.Line <= key.Line {
		return place{}, false
	}
	start, end := lineAt(data, key.Line)
	fits := listLine.Match(bytes.TrimSuffix(data[start:end], []byte("\n")))
	return place{offset: end, indent: list.Column - 1}, fits && end > start
}

// beforeFirstKey returns the position before the comment of the first key, so that the comment stays with its key.
func beforeFirstKey(data []byte, first *yaml.Node) (place, bool) {
	line, at := 1, 0
	comment := 0 // The offset of the first line of the comment above the line.
	for text := range bytes.Lines(data) {
		if line == first.Line {
			break
		}
		line, at = line+1, at+len(text)
		if text[0] != '#' || startsAs(text) != unknown {
			comment = at
		}
	}
	return place{offset: comment, key: true}, first.Column == 1 && line == first.Line && comment < len(data)
}

// lineAt returns the start of a line and of the next line. Lines count from 1.
func lineAt(data []byte, line int) (start, end int) {
	for text := range bytes.Lines(data) {
		start, end = end, end+len(text)
		line--
		if line == 0 {
			return start, end
		}
	}
	return end, end
}

// addsOnly returns true if the text parses as the document before, plus the files as first items of the list.
func addsOnly(text []byte, before *yaml.Node, files []File) bool {
	after, err := parse(text)
	if err != nil {
		return false
	}
	wanted := itemNodes(files)
	for i := 0; i < len(after.Content); i += 2 {
		list := after.Content[i+1]
		if after.Content[i].Value != writeFiles || len(list.Content) < len(files) {
			continue
		}
		own := &yaml.Node{Kind: yaml.SequenceNode, Tag: list.Tag, Content: list.Content[:len(files)]}
		list.Content = list.Content[len(files):]
		if len(list.Content) == 0 {
			after.Content = append(after.Content[:i:i], after.Content[i+2:]...)
		}
		return same(own, wanted) && same(after, before)
	}
	return false
}

// same compares the meaning and the style of two nodes, not their position.
func same(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.Tag != b.Tag || a.Value != b.Value || a.Anchor != b.Anchor || a.Style != b.Style ||
		len(a.Content) != len(b.Content) {
		return false
	}
	for i := range a.Content {
		if !same(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}
