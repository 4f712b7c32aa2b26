package bootdata

import (
	"bytes"
	"encoding/base64"
	"errors"
	"mime"
	"net/textproto"
	"regexp"
	"strings"
)

const (
	// partHeader is the header of the part with the files. The log of cloud-init has the file name of the part.
	partHeader = "Content-Type: text/cloud-config; charset=\"us-ascii\"\n" +
		"Content-Disposition: attachment; filename=\"metal3-files.cfg\"\n\n"

	// configHeader makes the part append to the lists of earlier parts.
	configHeader = "#cloud-config\nmerge_how: dict(recurse_list)+list(append)\n"

	// wrappedHeader is the header of wrapped user data. cloud-init recognizes plain text by its first line.
	wrappedHeader = "Content-Type: text/plain; charset=\"utf-8\"\nContent-Transfer-Encoding: base64\n\n"

	wrapBegin  = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\""
	lineLength = 76
)

var (
	wrapStart = regexp.MustCompile(`^` + wrapBegin + `(metal3-[0-9a-f]{32})"\n\n--(metal3-[0-9a-f]{32})\n`)

	// headerLine matches a line that Python takes for a line of a header.
	headerLine = regexp.MustCompile(`^(?:From |[!-9;-~]*:|[ \t])`)
)

// config is the cloud-config of a part with the files.
func config(files []File) string {
	return configHeader + block(writeFiles+":\n"+items(files, 0))
}

// wrap returns a multi-part with the user data, and after it the cloud-config. MIME without parts becomes a part
// without a change, because its headers have a meaning.
func wrap(data []byte, config string) []byte {
	boundary := "metal3-" + sum(data)[:32]
	var out strings.Builder
	out.WriteString(wrapBegin + boundary + "\"\n\n--" + boundary + "\n")
	if kindOf(data) == multipart {
		out.Write(data)
	} else {
		out.WriteString(wrappedHeader)
		text := base64.StdEncoding.EncodeToString(data)
		for len(text) > lineLength {
			out.WriteString(text[:lineLength] + "\n")
			text = text[lineLength:]
		}
		out.WriteString(text)
	}
	out.WriteString("\n--" + boundary + "\n" + partHeader + config + "--" + boundary + "--\n")
	return []byte(out.String())
}

// unwrap is the inverse of wrap.
func unwrap(data []byte) ([]byte, bool) {
	header := wrapStart.FindSubmatch(data)
	if header == nil {
		return nil, false
	}
	inner, rest, found := bytes.Cut(data[len(header[0]):], []byte("\n--"+string(header[1])+"\n"+partHeader))
	start, end, intact := findBlock(rest)
	if !found || !intact || start != len(configHeader) {
		return nil, false
	}
	if text, wrapped := bytes.CutPrefix(inner, []byte(wrappedHeader)); wrapped {
		decoded, err := base64.StdEncoding.DecodeString(string(text))
		if err != nil {
			return nil, false
		}
		inner = decoded
	}
	return inner, bytes.Equal(wrap(inner, string(rest[:end])), data)
}

// addPart adds the files to user data that is MIME.
func addPart(data []byte, files []File) ([]byte, error) {
	whole, err := readEntity(data)
	if err != nil {
		return nil, err
	}
	if whole.boundary == "" {
		return wrap(data, config(files)), nil
	}
	return insert(data, whole.closing, part(whole.boundary, config(files))), nil
}

func part(boundary, config string) string {
	return "--" + boundary + "\n" + partHeader + config
}

// withoutPart is the inverse of addPart.
func withoutPart(data []byte) []byte {
	whole, err := readEntity(data)
	if err != nil || whole.boundary == "" {
		return data
	}
	head := part(whole.boundary, configHeader)
	last := bytes.LastIndex(data[:whole.closing], []byte(head))
	if last < 0 || data[max(last, 1)-1] != '\n' {
		return data
	}
	if length := blockLength(data[last+len(head):]); length == 0 || last+len(head)+length != whole.closing {
		return data
	}
	return cut(data, last, whole.closing)
}

// entity is a MIME message or a part of one.
type entity struct {
	header textproto.MIMEHeader
	// body is the text after the header.
	body []byte
	// boundary is empty if the entity has no parts. Otherwise parts are the texts between the boundaries.
	boundary string
	parts    [][]byte
	// closing is the offset in the entity of the line that ends the parts.
	closing int
}

// readEntity splits MIME like Python, in which cloud-init is written: lines end in LF or CRLF, also mixed. Unlike
// Python, it requires the line that ends the parts: without it, the data is truncated.
func readEntity(data []byte) (entity, error) {
	header, length := readHeader(data)
	read := entity{header: header, body: data[length:]}
	media, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil && header.Get("Content-Type") != "" {
		return entity{}, unparsable("MIME user data", "reading a Content-Type: %w", err)
	}
	if !strings.HasPrefix(media, "multipart/") {
		return read, nil
	}
	read.boundary = parameters["boundary"]
	if read.boundary == "" {
		return entity{}, unparsable("MIME user data", "a Content-Type multipart has no boundary")
	}
	if err := read.split(length); err != nil {
		return entity{}, err
	}
	return read, nil
}

// readHeader returns the header, and its length with the empty line that ends it. Like Python, it returns no error: the
// body begins at the first line that cannot belong to a header, also without an empty line before. It ignores lines
// without a name.
func readHeader(data []byte) (textproto.MIMEHeader, int) {
	header, length := textproto.MIMEHeader{}, 0
	var name string
	var value []string // The lines of the value that is read.
	add := func() {
		if name != "" {
			header.Add(name, strings.Join(value, " "))
		}
	}
	for line := range bytes.Lines(data) {
		text := strings.TrimRight(string(line), "\r\n")
		if text != "" && !headerLine.MatchString(text) {
			break
		}
		length += len(line)
		if text == "" {
			break
		}
		if text[0] == ' ' || text[0] == '\t' {
			value = append(value, strings.TrimSpace(text))
			continue
		}
		add()
		before, after, _ := strings.Cut(text, ":")
		if name = before; strings.HasPrefix(text, "From ") {
			name = ""
		}
		value = []string{strings.TrimSpace(after)}
	}
	add()
	return header, length
}

// split returns the parts. The body starts at the offset.
func (e *entity) split(offset int) error {
	start, at := -1, 0
	for line := range bytes.Lines(e.body) {
		mark := string(bytes.TrimRight(line, " \t\r\n"))
		ends := mark == "--"+e.boundary+"--"
		if ends || mark == "--"+e.boundary {
			if start >= 0 {
				e.parts = append(e.parts, e.body[start:max(start, at-lineBreak(e.body[:at]))])
			}
			start = at + len(line)
		}
		if ends {
			e.closing = offset + at
			return nil
		}
		at += len(line)
	}
	return &UnparsableError{Format: "MIME user data", Err: errors.New("the line that ends the parts is missing")}
}

// lineBreak returns the length of the line break at the end of the text. It belongs to the boundary that follows.
func lineBreak(text []byte) int {
	switch {
	case bytes.HasSuffix(text, []byte("\r\n")):
		return 2
	case bytes.HasSuffix(text, []byte("\n")):
		return 1
	}
	return 0
}
