package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shell splits a script into commands. It supports the syntax in the documents: quotes, continued lines, pipes, lists,
// loops, redirections, here-documents (<<END), and substitutions $(...), whose commands follow the command around them.
type shell struct {
	script   string
	commands [][]string
	words    []string
	word     strings.Builder
	inWord   bool
	inner    []string
	// end is the line that ends a here-document, which begins after the current line.
	end string
}

// commandsOf returns the words of each command, without assignments before it, sudo, env and words of the shell.
func commandsOf(script string) [][]string {
	parser := shell{script: script}
	parser.run()
	for _, inner := range parser.inner {
		parser.commands = append(parser.commands, commandsOf(inner)...)
	}
	return parser.commands
}

func (s *shell) run() {
	for s.script != "" {
		switch {
		case strings.HasPrefix(s.script, "\\\n"):
			s.skip(2)
			s.endWord()
		case strings.HasPrefix(s.script, "$("):
			s.substitution()
		case strings.HasPrefix(s.script, "<<"):
			s.document()
		case s.script[0] == '#' && !s.inWord:
			_, s.script, _ = strings.Cut(s.script, "\n")
			s.endCommand()
		default:
			s.sign(s.script[0])
		}
	}
	s.endCommand()
}

// sign parses one special character and the syntax that it begins.
func (s *shell) sign(next byte) {
	switch next {
	case '\\':
		s.take(s.script[1:min(2, len(s.script))])
		s.skip(min(2, len(s.script)))
	case '\'':
		s.skip(1)
		s.take(s.until("'"))
	case '"':
		s.skip(1)
		s.quoted()
	case '<', '>':
		s.redirection()
	case '\n':
		s.skip(1)
		s.endCommand()
		if s.end != "" {
			s.until("\n" + s.end)
			s.end = ""
		}
	case '|', '&', ';', '(', ')':
		s.skip(1)
		s.endCommand()
	case ' ', '\t':
		s.skip(1)
		s.endWord()
	default:
		s.take(s.script[:1])
		s.skip(1)
	}
}

func (s *shell) skip(count int) { s.script = s.script[count:] }

func (s *shell) take(text string) {
	s.word.WriteString(text)
	s.inWord = true
}

// until removes and returns the text before a mark, and removes the mark.
func (s *shell) until(mark string) string {
	before, after, _ := strings.Cut(s.script, mark)
	s.script = after
	return before
}

func (s *shell) quoted() {
	s.inWord = true
	for s.script != "" && s.script[0] != '"' {
		switch {
		case s.script[0] == '\\' && len(s.script) > 1:
			s.take(s.script[1:2])
			s.skip(2)
		case strings.HasPrefix(s.script, "$("):
			s.substitution()
		default:
			s.take(s.script[:1])
			s.skip(1)
		}
	}
	s.script = strings.TrimPrefix(s.script, `"`)
}

func (s *shell) substitution() {
	depth, length := 0, len(s.script)
	for i, sign := range s.script {
		if sign == '(' {
			depth++
		}
		if sign == ')' {
			depth--
			if depth == 0 {
				length = i
				break
			}
		}
	}
	s.inner = append(s.inner, s.script[2:length])
	s.take("$()")
	s.skip(min(length+1, len(s.script)))
}

func (s *shell) document() {
	s.endWord()
	s.skip(2)
	name := regexp.MustCompile(`^'?(\w+)'?`).FindStringSubmatch(s.script)
	if name == nil {
		return
	}
	s.skip(len(name[0]))
	s.end = name[1]
}

// redirection drops the file and the file descriptor of a redirection.
func (s *shell) redirection() {
	if text := s.word.String(); text == "2" || text == "1" {
		s.word.Reset()
		s.inWord = false
	}
	s.endWord()
	s.script = strings.TrimLeft(s.script, "<>& ")
	before := len(s.words)
	for s.script != "" && !strings.ContainsRune(" \t\n|;", rune(s.script[0])) {
		s.take(s.script[:1])
		s.skip(1)
	}
	s.endWord()
	s.words = s.words[:before]
}

func (s *shell) endWord() {
	if s.inWord {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.inWord = false
}

var assignment = regexp.MustCompile(`^[A-Za-z_]+=`)

func (s *shell) endCommand() {
	s.endWord()
	words := s.words
	before := []string{"do", "then", "if", "else", "until", "while", "!", "sudo", "env"}
	for len(words) > 0 && (slices.Contains(before, words[0]) || assignment.MatchString(words[0])) {
		words = words[1:]
	}
	s.words = nil
	if len(words) > 0 && !slices.Contains([]string{"for", "done", "fi", "export"}, words[0]) {
		s.commands = append(s.commands, words)
	}
}

func TestCommandsOf(t *testing.T) {
	cases := map[string]struct {
		reason, script string
		want           [][]string
	}{
		"Continued": {"a backslash continues a line", "a --b \\\n  c\n", [][]string{{"a", "--b", "c"}}},
		"Pipe":      {"each side is a command", "a b | c && d; e", [][]string{{"a", "b"}, {"c"}, {"d"}, {"e"}}},
		"Quotes":    {"quotes keep blanks", `a 'b c' "d \"e"`, [][]string{{"a", "b c", `d "e`}}},
		"Prefixes":  {"sudo and variables are no commands", `sudo env PATH="$PATH" X=1 make demo`, [][]string{{"make", "demo"}}},
		"Loop": {
			"keywords are not commands", "for x in a b; do\n  c $x > d\ndone\n", [][]string{{"c", "$x"}},
		},
		"Until": {
			"a condition is a command", "until a | b; do c; done\n", [][]string{{"a"}, {"b"}, {"c"}},
		},
		"Document": {
			"a here-document is not a script", "cat > file <<END\nnot a command\nEND\nb\n", [][]string{{"cat"}, {"b"}},
		},
		"Substitution": {
			"commands in a substitution count too", `a "$(b c)" d`, [][]string{{"a", "$()", "d"}, {"b", "c"}},
		},
		"Comment": {"comments are omitted", "# a b\nc # d\n", [][]string{{"c"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, commandsOf(tc.script)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
