package wire

import "bytes"

// Tree names members of JSON objects. A member without a tree is removed. For an array, the tree applies to each
// element.
type Tree map[string]Tree

// ManagedFields returns the tree of the one large member that all objects have.
func ManagedFields() Tree { return Tree{"metadata": {"managedFields": nil}} }

// Prune removes the members of the tree from a JSON text. It reuses the memory of the text. A text that it cannot parse
// stays as it is, so that the decoder reports the error.
func (t Tree) Prune(text []byte) []byte {
	parser := parser{text: text}
	if !parser.value(t) || len(parser.cuts) == 0 {
		return text
	}
	kept, from := text[:0], 0
	for _, cut := range parser.cuts {
		kept, from = append(kept, text[from:cut.from]...), cut.to
	}
	return append(kept, text[from:]...)
}

// maxDepth is the limit of nested objects and arrays that may have members to remove. Those of objects of the API
// server have fewer levels. A stack that grows without a limit ends the program.
const maxDepth = 32

// parser finds what to remove. Its methods return false if the text is not JSON, or too deep.
type parser struct {
	text  []byte
	at    int
	depth int
	// cuts are in order and do not overlap.
	cuts []span
}

type span struct{ from, to int }

func (p *parser) value(tree Tree) bool {
	if p.depth++; p.depth > maxDepth {
		return false
	}
	defer func() { p.depth-- }()
	switch p.next() {
	case '{':
		if len(tree) == 0 {
			return p.skip()
		}
		return p.object(tree)
	case '[':
		if len(tree) == 0 {
			return p.skip()
		}
		return p.array(tree)
	case '"':
		return p.string()
	default:
		return p.literal()
	}
}

// object reads an object, and cuts the members of the tree with one of their commas.
func (p *parser) object(tree Tree) bool {
	p.at++
	if p.next() == '}' {
		p.at++
		return true
	}
	// comma is the one after the last member that stays.
	comma := -1
	for {
		from := p.at
		removed, read := p.member(tree)
		if !read {
			return false
		}
		switch end := p.next(); {
		case end == '}' && removed:
			p.cutLast(comma, from)
			p.at++
			return true
		case end == '}':
			p.at++
			return true
		case end != ',':
			return false
		case !removed:
			comma = p.at
		}
		p.at++
		p.next()
		if removed {
			p.cuts = append(p.cuts, span{from, p.at})
		}
	}
}

// member reads a name and its value. removed is true if the tree removes the member.
func (p *parser) member(tree Tree) (removed, read bool) {
	from := p.at
	if p.next() != '"' || !p.string() {
		return false, false
	}
	below, named := tree[string(p.text[from+1:p.at-1])]
	if p.next() != ':' {
		return false, false
	}
	p.at++
	return named && below == nil, p.value(below)
}

// cutLast cuts the last member of an object, from the comma before it. Members between the comma and the last one have
// been cut already.
func (p *parser) cutLast(comma, from int) {
	if comma < 0 {
		p.cuts = append(p.cuts, span{from, p.at})
		return
	}
	for len(p.cuts) > 0 && p.cuts[len(p.cuts)-1].from > comma {
		p.cuts = p.cuts[:len(p.cuts)-1]
	}
	p.cuts = append(p.cuts, span{comma, p.at})
}

func (p *parser) array(tree Tree) bool {
	p.at++
	if p.next() == ']' {
		p.at++
		return true
	}
	for {
		if !p.value(tree) {
			return false
		}
		switch p.next() {
		case ',':
			p.at++
		case ']':
			p.at++
			return true
		default:
			return false
		}
	}
}

// skip reads an object or an array.
func (p *parser) skip() bool {
	depth := 0
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case '"':
			if !p.string() {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		p.at++
		if depth == 0 {
			return true
		}
	}
	return false
}

func (p *parser) string() bool {
	for p.at++; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			p.at++
		case '"':
			p.at++
			return true
		}
	}
	return false
}

// literal reads a number, true, false or null.
func (p *parser) literal() bool {
	length := bytes.IndexAny(p.text[p.at:], ",]} \t\r\n")
	if length < 0 {
		length = len(p.text) - p.at
	}
	p.at += length
	return length > 0
}

// next skips white space and returns the next byte, 0 at the end.
func (p *parser) next() byte {
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case ' ', '\t', '\r', '\n':
		default:
			return p.text[p.at]
		}
	}
	return 0
}
