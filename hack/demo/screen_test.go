package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
)

func printed(width int) string {
	var out bytes.Buffer
	s := &screen{out: &out, width: width, started: time.Now()}
	s.say("begin")
	s.show(map[string]string{"a": "new", "b": "new"})
	s.show(map[string]string{"a": "new", "b": "new"})
	s.show(map[string]string{"a": "ready with a long explanation"})
	s.clear()
	s.say("end")
	return regexp.MustCompile(`\[ *[0-9.]+s\]`).ReplaceAllString(out.String(), "[t]")
}

func TestScreenOfAFileShowsChanges(t *testing.T) {
	space := strings.Repeat(" ", 46)
	want := "[t] begin\n[t]   a" + space + "new\n[t]   b" + space + "new\n" +
		"[t]   a" + space + "ready with a long explanation\n[t]   b" + space + "gone\n[t] end\n"
	if got := printed(0); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestScreenOfATerminalDrawsAnew(t *testing.T) {
	const width = 60
	space := strings.Repeat(" ", 46)
	want := "[t] begin\n  a" + space + "new\n  b" + space + "new\n" +
		"\x1b[2A\x1b[J  a" + space + "ready with\n\x1b[1A\x1b[J[t] end\n"
	if got := printed(width); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
