package bootdata

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime/quotedprintable"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth limits the depth of archives and nested parts.
const maxDepth = 8

var (
	jinjaExpressions = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	pathLines        = regexp.MustCompile(`(?:^|[\s{,'"-])path["']?[ \t]*:[ \t]*["']?([^"'\s,}#]+)`)
	gzipTypes        = regexp.MustCompile(`(?i)^application/(?:x-)?(?:g(?:un)?zip|compress)`)
)

// errNoList is the error for a value that cloud-init does not accept.
var errNoList = errors.New("cloud-init requires a list of files")

// writtenPath is a path as the user spelled it.
type writtenPath struct {
	path string
	// directory says that files may exist below the path.
	directory bool
}

// paths are the paths that bootstrap data writes.
type paths []writtenPath

// conflict returns an error if the path of a file is one of the paths, or above or below one of them.
func (p paths) conflict(wanted string) error {
	for _, existing := range p {
		clean := path.Clean("/" + existing.path)
		if clean == wanted || within(wanted, clean) || !existing.directory && within(clean, wanted) {
			return &ConflictError{Path: wanted, Existing: existing.path}
		}
	}
	return nil
}

// conflicts returns an error for the first file that conflicts with one of the paths.
func (p paths) conflicts(files []File) error {
	for _, file := range files {
		if err := p.conflict(file.Path); err != nil {
			return err
		}
	}
	return nil
}

func within(directory, file string) bool {
	return strings.HasPrefix(file, strings.TrimSuffix(directory, "/")+"/")
}

// writtenByUserData returns the paths that the user data, or a part of it, writes.
func writtenByUserData(data []byte, depth int) (paths, error) {
	if depth > maxDepth {
		return nil, unparsable(CloudConfig, "it is nested more than %d times", maxDepth)
	}
	switch kindOf(data) {
	case multipart:
		return writtenByEntity(data, depth)
	case cloudConfig:
		return readDocument(data, false).written()
	case jinjaConfig:
		return readDocument(data, true).written()
	case archive:
		return writtenByArchive(data, depth)
	case jsonPatch:
		return writtenByPatch(data)
	}
	return nil, nil
}

// written returns the paths that the document writes.
func (d document) written() (paths, error) {
	switch {
	case d.template:
		return d.writtenByTemplate()
	case d.problem != nil:
		return nil, unparsable(CloudConfig, "reading the YAML: %w", d.problem)
	default:
		return writtenByConfig(d.root)
	}
}

// writtenByTemplate parses a template as if all its conditions were true. If the result is not YAML, each word with the
// form of a path counts.
func (d document) writtenByTemplate() (paths, error) {
	if d.problem == nil && onlyExpressions(d.text) {
		written, err := writtenByConfig(d.root)
		if errors.Is(err, errNoList) {
			// A null in the template is null on the machine. An expression can be a list there.
			return written, checkNull(d.root)
		}
		return written, err
	}
	_, text, _ := bytes.Cut(d.text, []byte("\n"))
	text = jinjaExpressions.ReplaceAll(withoutJinjaBlocks(text), []byte("jinja"))
	if root, err := parse(text); err == nil {
		// The file does not show which list cloud-init will use on the machine, or whether there will be one.
		written, _ := writtenByConfig(root)
		return written, nil
	}
	var written paths
	for _, found := range pathLines.FindAllSubmatch(d.text, -1) {
		// The word may also be a directory in the content of a file.
		written = append(written, writtenPath{path: string(found[1]), directory: true})
	}
	return written, nil
}

// withoutJinjaBlocks removes the statements and comments of jinja. It keeps those without an end.
func withoutJinjaBlocks(text []byte) []byte {
	var kept []byte
	// searched says that the rest of the text has no such end: a search for each beginning would be quadratic.
	searched := map[byte]bool{}
	for from := 0; ; {
		next := bytes.IndexByte(text[from:], '{')
		if next < 0 || from+next+1 == len(text) {
			return append(kept, text[from:]...)
		}
		start, mark := from+next, text[from+next+1]
		length := -1
		if (mark == '%' || mark == '#') && !searched[mark] {
			length = bytes.Index(text[start+2:], []byte{mark, '}'})
			searched[mark] = length < 0
		}
		if length < 0 {
			kept, from = append(kept, text[from:start+1]...), start+1
			continue
		}
		kept, from = append(kept, text[from:start]...), start+2+length+2
	}
}

func checkNull(root *yaml.Node) error {
	for _, list := range values(root, writeFiles) {
		if list.Tag == "!!null" {
			return unparsable(CloudConfig, "write_files in line %d is null: %w", list.Line, errNoList)
		}
	}
	return nil
}

// writtenByConfig returns the paths of a cloud-config. A list that cloud-init does not accept is an error.
func writtenByConfig(root *yaml.Node) (paths, error) {
	if root == nil {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, unparsable(CloudConfig, "it is not a mapping of keys to values")
	}
	var written paths
	var problem error
	for _, list := range values(root, writeFiles) {
		list = resolve(list)
		if list.Kind != yaml.SequenceNode {
			problem = unparsable(CloudConfig, "write_files in line %d: %w", list.Line, errNoList)
			continue
		}
		for _, item := range list.Content {
			written = append(written, pathsOf(item)...)
		}
	}
	return written, problem
}

func pathsOf(item *yaml.Node) paths {
	var found paths
	for _, value := range values(item, "path") {
		if value = resolve(value); value.Kind == yaml.ScalarNode && value.Value != "" {
			found = append(found, writtenPath{path: value.Value})
		}
	}
	return found
}

// values returns all values of a key in a mapping and in its merged mappings.
func values(node *yaml.Node, key string) []*yaml.Node {
	var found []*yaml.Node
	// Each mapping is read once, even if it is merged several times.
	seen := map[*yaml.Node]bool{}
	waiting := []*yaml.Node{node}
	for len(waiting) > 0 {
		next := resolve(waiting[0])
		waiting = waiting[1:]
		if seen[next] || next.Kind != yaml.MappingNode {
			continue
		}
		seen[next] = true
		for i := 0; i < len(next.Content); i += 2 {
			switch resolve(next.Content[i]).Value {
			case key:
				found = append(found, next.Content[i+1])
			case mergeKey:
				// A merge key has a mapping or a list of mappings.
				merged := resolve(next.Content[i+1])
				waiting = append(waiting, merged)
				if merged.Kind == yaml.SequenceNode {
					waiting = append(waiting, merged.Content...)
				}
			}
		}
	}
	return found
}

func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// writtenByArchive returns the paths of a list of parts.
func writtenByArchive(data []byte, depth int) (paths, error) {
	root, err := parse(data)
	if err != nil {
		return nil, unparsable(CloudConfig, "reading the archive: %w", err)
	}
	if root == nil || root.Kind != yaml.SequenceNode {
		return nil, unparsable(CloudConfig, "the archive is not a list")
	}
	var written paths
	// Each text is read once, even if several parts are aliases of it.
	seen := map[*yaml.Node]bool{}
	for _, entry := range root.Content {
		for _, content := range append(values(entry, "content"), resolve(entry)) {
			content = resolve(content)
			if seen[content] {
				continue
			}
			seen[content] = true
			text := []byte(content.Value)
			if startsAs(text) == unknown {
				// In an archive, a cloud-config requires no header.
				text = append([]byte("#cloud-config\n"), text...)
			}
			inner, err := writtenByUserData(text, depth+1)
			if err != nil {
				continue
			}
			written = append(written, inner...)
		}
	}
	return written, nil
}

// writtenByPatch returns the paths that a JSON patch puts into write_files.
func writtenByPatch(data []byte) (paths, error) {
	root, err := parse(data)
	if err != nil {
		return nil, unparsable(CloudConfig, "reading the JSON patch: %w", err)
	}
	if root == nil || root.Kind != yaml.SequenceNode {
		return nil, unparsable(CloudConfig, "the JSON patch is not a list")
	}
	var written paths
	for _, operation := range root.Content {
		for _, value := range values(operation, "value") {
			value = resolve(value)
			written = append(written, pathsOf(value)...)
			for _, item := range value.Content {
				written = append(written, pathsOf(item)...)
			}
		}
	}
	return written, nil
}

// writtenByEntity returns the paths of a MIME message or of a part.
func writtenByEntity(data []byte, depth int) (paths, error) {
	read, err := readEntity(data)
	if err != nil {
		return nil, err
	}
	if read.boundary == "" {
		return writtenByBody(read, depth)
	}
	if depth > maxDepth {
		return nil, unparsable("MIME user data", "it is nested more than %d times", maxDepth)
	}
	var written paths
	for _, part := range read.parts {
		inner, err := writtenByEntity(part, depth+1)
		if err != nil {
			return nil, err
		}
		written = append(written, inner...)
	}
	return written, nil
}

// writtenByBody returns the paths of a part.
func writtenByBody(read entity, depth int) (paths, error) {
	body := read.body
	switch strings.ToLower(strings.TrimSpace(read.header.Get("Content-Transfer-Encoding"))) {
	case "base64":
		// Python ignores characters that are not base64.
		body, _ = io.ReadAll(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(bytes.TrimSpace(body))))
	case "quoted-printable":
		body, _ = io.ReadAll(quotedprintable.NewReader(bytes.NewReader(body)))
	}
	if bytes.HasPrefix(body, gzipMagic) && gzipTypes.MatchString(read.header.Get("Content-Type")) {
		unpacked, err := gunzip(body)
		if err != nil {
			return nil, err
		}
		body = unpacked
	}
	contentType := strings.ToLower(read.header.Get("Content-Type"))
	if startsAs(body) == unknown && strings.HasPrefix(contentType, "text/cloud-config") {
		body = append([]byte("#cloud-config\n"), body...)
	}
	if kindOf(body) == multipart {
		return nil, nil
	}
	return writtenByUserData(body, depth+1)
}
