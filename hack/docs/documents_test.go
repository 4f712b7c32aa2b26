package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestGeneratedPartsAreCurrent(t *testing.T) {
	parts, err := generatedParts(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts(t) {
		want, err := fillIn(text, parts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, text); diff != "" {
			t.Errorf("%s is stale: run go run ./hack/docs: -want, +got:\n%s", name, diff)
		}
	}
}

func TestEveryPartIsShown(t *testing.T) {
	parts, err := generatedParts(root(t))
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Builder{}
	for _, text := range texts(t) {
		all.WriteString(text)
	}
	for name := range parts {
		if !strings.Contains(all.String(), partBegin+name+markEnd) {
			t.Errorf("no document shows the generated part %q", name)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?(?: "([^"]*)")?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noSlug  = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors returns the anchors of the headings of a document.
func anchors(text string) sets.Set[string] {
	found := sets.New[string]()
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := noSlug.ReplaceAllString(strings.ToLower(match[1]), "")
		found.Insert(strings.ReplaceAll(slug, " ", "-"))
	}
	return found
}

// TestLinksLeadSomewhere checks links between files of the checkout. It does not check links to other sites, because
// tests run without a network.
func TestLinksLeadSomewhere(t *testing.T) {
	for name, text := range texts(t) {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, anchor := match[1], match[2]
			if strings.Contains(target, "://") {
				continue
			}
			path := name
			if target != "" {
				path = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root(t), path)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, path)
				continue
			}
			if anchor != "" && !anchors(read(t, path)).Has(anchor) {
				t.Errorf("%s links to the heading %s of %s, which does not exist", name, anchor, path)
			}
		}
	}
}

func TestEveryDocumentIsFound(t *testing.T) {
	linked := sets.New("README.md")
	all := texts(t)
	for name, text := range all {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			linked.Insert(filepath.Join(filepath.Dir(name), match[1]))
		}
	}
	for name := range all {
		if !linked.Has(name) {
			t.Errorf("no document links to %s", name)
		}
	}
}

func TestFillIn(t *testing.T) {
	parts := map[string]string{"one": "| 1 |\n"}
	cases := map[string]struct {
		reason   string
		document string
		want     string
		wantErr  string
	}{
		"NoPart": {
			reason:   "written text does not change",
			document: "# Title\n\nText.\n",
			want:     "# Title\n\nText.\n",
		},
		"Replaced": {
			reason:   "only text between the comments is replaced",
			document: "Before.\n" + partBegin + "one" + markEnd + "\nold\n" + partEnd + "\nAfter.\n",
			want:     "Before.\n" + partBegin + "one" + markEnd + "\n\n| 1 |\n\n" + partEnd + "\nAfter.\n",
		},
		"Unknown": {
			reason:   "a misspelt part would stay stale",
			document: partBegin + "two" + markEnd + "\n" + partEnd,
			wantErr:  `part "two" is unknown, use one of one`,
		},
		"Open": {
			reason:   "without an end the rest of the document would be lost",
			document: partBegin + "one" + markEnd + "\nText.\n",
			wantErr:  `part "one" has no end, add the line ` + partEnd,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := fillIn(tc.document, parts)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantErr}, []string{got, text}); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
