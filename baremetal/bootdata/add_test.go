package bootdata_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
)

func zipped(tb testing.TB, data []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	writer.Name = "user-data"
	if _, err := writer.Write(data); err != nil {
		tb.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func unzipped(tb testing.TB, data []byte) []byte {
	tb.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		tb.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		tb.Fatal(err)
	}
	return plain
}

// changed returns the files of the next release: other content, an additional file and a removed file.
func changed() []bootdata.File {
	files := added()
	files[0].Content = []byte("name: vip\n")
	files[1] = bootdata.File{Path: "/etc/kubernetes/metal3-ironic/guard.json", Mode: 0o600, Content: []byte("{}")}
	return append(files, bootdata.File{Path: "/etc/kubernetes/manifests/metal3-ironic.yaml", Mode: 0o600})
}

func TestAddTwice(t *testing.T) {
	for name, input := range samples(t) {
		t.Run(name, func(t *testing.T) {
			add := func(data []byte, files []bootdata.File) []byte {
				t.Helper()
				got, err := bootdata.Add(data, format(input), files)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			once := add(input, added())
			if diff := cmp.Diff(string(once), string(add(once, added()))); diff != "" {
				t.Errorf("adding again changed the data:\n%s", diff)
			}
			if diff := cmp.Diff(string(add(input, changed())), string(add(once, changed()))); diff != "" {
				t.Errorf("replacing differs from adding at once:\n%s", diff)
			}
			if diff := cmp.Diff(string(input), string(add(input, nil))); diff != "" {
				t.Errorf("adding nothing changed the data:\n%s", diff)
			}
			if strings.HasPrefix(name, "ignition-3-") {
				return // The call without files leaves an empty list.
			}
			if diff := cmp.Diff(string(input), string(add(once, nil))); diff != "" {
				t.Errorf("the data without the files differs from the data before:\n%s", diff)
			}
		})
	}
}

func TestAddToPacked(t *testing.T) {
	plain := []byte("## template: jinja\n#cloud-config\nwrite_files:\n- path: /etc/one\n  content: {{ x }}\n")
	want, err := bootdata.Add(plain, "", added())
	if err != nil {
		t.Fatal(err)
	}
	text := func(data []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(data) + "\n") }
	decoded := func(data []byte) []byte {
		got, err := base64.StdEncoding.DecodeString(string(bytes.TrimSuffix(data, []byte("\n"))))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	cases := map[string]struct {
		data   []byte
		unpack func([]byte) []byte
	}{
		"Gzip":         {zipped(t, plain), func(data []byte) []byte { return unzipped(t, data) }},
		"Base64":       {text(plain), decoded},
		"GzipInBase64": {text(zipped(t, plain)), func(data []byte) []byte { return unzipped(t, decoded(data)) }},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := bootdata.Add(test.data, bootdata.CloudConfig, added())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(test.unpack(got))); diff != "" {
				t.Error(diff)
			}
			again, err := bootdata.Add(got, bootdata.CloudConfig, added())
			if err != nil || !bytes.Equal(got, again) {
				t.Errorf("adding again changed the data: %v", err)
			}
			without, err := bootdata.Add(got, bootdata.CloudConfig, nil)
			if err != nil || !bytes.Equal(plain, test.unpack(without)) {
				t.Errorf("the data without the files differs from the data before: %v", err)
			}
			same, err := bootdata.Add(test.data, bootdata.CloudConfig, nil)
			if err != nil || !bytes.Equal(test.data, same) {
				t.Errorf("adding nothing packed the data anew: %v", err)
			}
		})
	}
}

func TestConflicts(t *testing.T) {
	const wanted = "/etc/kubernetes/metal3-ironic/empty"
	mime := func(encoding, body string) string {
		return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/cloud-config\n" +
			"Content-Transfer-Encoding: " + encoding + "\n\n" + body + "\n--b--\n"
	}
	const list = "#cloud-config\nwrite_files:\n- path: " + wanted + "\n  content: mine\n"
	cases := map[string]struct {
		data     string
		existing string
	}{
		"SamePath":             {list, wanted},
		"WithoutContent":       {"#cloud-config\nwrite_files: [{path: " + wanted + "}]\n", wanted},
		"OtherSpelling":        {strings.Replace(list, wanted, "/etc/x/..//kubernetes/./metal3-ironic/empty", 1), "/etc/x/..//kubernetes/./metal3-ironic/empty"},
		"Quoted":               {strings.Replace(list, wanted, `"\x2fetc/kubernetes/metal3-ironic/empty"`, 1), wanted},
		"RelativeToTheRoot":    {strings.Replace(list, wanted, "etc/kubernetes/metal3-ironic/empty", 1), "etc/kubernetes/metal3-ironic/empty"},
		"Appended":             {list + "  append: true\n", wanted},
		"Deferred":             {list + "  defer: true\n", wanted},
		"FileInTheWay":         {strings.Replace(list, "/empty", "", 1), "/etc/kubernetes/metal3-ironic"},
		"FileBelow":            {strings.Replace(list, "/empty", "/empty/below", 1), wanted + "/below"},
		"Alias":                {"#cloud-config\nx-file: &file {path: " + wanted + "}\nwrite_files: [*file]\n", wanted},
		"MergedIntoItem":       {"#cloud-config\nx-file: &file {path: " + wanted + "}\nwrite_files: [{<<: *file, content: x}]\n", wanted},
		"MergedIntoRoot":       {"#cloud-config\nx-base: &base {write_files: [{path: " + wanted + "}]}\n<<: [*base]\n", wanted},
		"ListThatIsLost":       {list + "write_files: [{path: /etc/two}]\n", wanted},
		"Template":             {"## template: jinja\n" + list, wanted},
		"TemplateCondition":    {"## template: jinja\n#cloud-config\n{% if x %}\n" + strings.TrimPrefix(list, "#cloud-config\n") + "{% endif %}\n", wanted},
		"TemplateUnread":       {"## template: jinja\n" + list + "{% if x %}: [{% endif %}\n", wanted},
		"Part":                 {mime("7bit", list), wanted},
		"PartInBase64":         {mime("base64", base64.StdEncoding.EncodeToString([]byte(list))), wanted},
		"PartQuoted":           {mime("quoted-printable", strings.Replace(list, "metal3", "=6Detal3", 1)), wanted},
		"PartWithoutHeader":    {mime("7bit", strings.TrimPrefix(list, "#cloud-config\n")), wanted},
		"PartWithoutEmptyLine": {strings.Replace(mime("7bit", list), "\n\n#cloud-config", "\n#cloud-config", 1), wanted},
		"PartCompressed": {strings.Replace(mime("base64", base64.StdEncoding.EncodeToString(zipped(t, []byte(list)))),
			"text/cloud-config", "application/gzip", 1), wanted},
		"PartInPart":       {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=outer\n\n--outer\n" + mime("7bit", list) + "\n--outer--\n", wanted},
		"MimeWithoutParts": {"Content-Type: text/cloud-config\nMIME-Version: 1.0\n\n" + list, wanted},
		"Archive":          {"#cloud-config-archive\n- content: |\n    #cloud-config\n    write_files: [{path: " + wanted + "}]\n", wanted},
		"ArchiveOfText":    {"#cloud-config-archive\n- \"write_files: [{path: " + wanted + "}]\"\n", wanted},
		"JSONPatch":        {"#cloud-config-jsonp\n[{\"op\": \"add\", \"path\": \"/write_files/-\", \"value\": {\"path\": \"" + wanted + "\"}}]\n", wanted},
		"JSONPatchOfList":  {"#cloud-config-jsonp\n[{\"op\": \"add\", \"path\": \"/write_files\", \"value\": [{\"path\": \"" + wanted + "\"}]}]\n", wanted},
		"Ignition3":        {`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"` + wanted + `"}]}}`, wanted},
		"Ignition2":        {`{"ignition":{"version":"2.3.0"},"storage":{"files":[{"filesystem":"root","path":"` + wanted + `","append":true}]}}`, wanted},
		"IgnitionOtherSpelling": {`{"ignition":{"version":"2.3.0"},"storage":{"files":[{"filesystem":"root","path":"/etc/x/../kubernetes//metal3-ironic/empty"}]}}`,
			"/etc/x/../kubernetes//metal3-ironic/empty"},
		"IgnitionLink":      {`{"ignition":{"version":"3.1.0"},"storage":{"links":[{"path":"/etc/kubernetes","target":"/opt"}]}}`, "/etc/kubernetes"},
		"IgnitionDirectory": {`{"ignition":{"version":"3.1.0"},"storage":{"directories":[{"path":"` + wanted + `"}]}}`, wanted},
		"IgnitionAnyCase":   {`{"ignition":{"version":"3.1.0"},"Storage":{"FILES":[{"PATH":"` + wanted + `"}]}}`, wanted},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := bootdata.Add([]byte(test.data), format([]byte(test.data)), added())
			var conflict *bootdata.ConflictError
			if !errors.As(err, &conflict) {
				t.Fatalf("no conflict: %v", err)
			}
			if diff := cmp.Diff(&bootdata.ConflictError{Path: conflict.Path, Existing: test.existing}, conflict); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNoConflicts has paths that resemble a conflict.
func TestNoConflicts(t *testing.T) {
	cases := map[string]string{
		"OtherFileInDirectory": "#cloud-config\nwrite_files:\n- path: /etc/kubernetes/metal3-ironic/mine\n",
		"NameStartsAlike":      "#cloud-config\nwrite_files:\n- path: /etc/kubernetes/metal3-ironic/empty2\n",
		"PathInContent":        "#cloud-config\nwrite_files:\n- path: /etc/one\n  content: |\n    - path: /etc/kubernetes/metal3-ironic/empty\n",
		"NoPath":               "#cloud-config\nwrite_files:\n- path: ''\n- content: x\n- 7\n",
		"DirectoryInContent": "## template: jinja\n#cloud-config\n{% if x %}: [{% endif %}\nwrite_files:\n- path: /etc/one\n" +
			"  content: |\n    hostPath:\n      path: /etc/kubernetes\n",
		"IgnitionDirectory":       `{"ignition":{"version":"3.1.0"},"storage":{"directories":[{"path":"/etc/kubernetes"}]}}`,
		"IgnitionOtherFilesystem": `{"ignition":{"version":"2.3.0"},"storage":{"files":[{"filesystem":"data","path":"/etc/kubernetes/metal3-ironic/empty"}]}}`,
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := bootdata.Add([]byte(data), format([]byte(data)), added()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	cases := map[string]struct {
		data, format string
		files        []bootdata.File
		want         error
		message      string
	}{
		"UnknownFormat": {"#cloud-config\n", "talos", added(), &bootdata.UnknownFormatError{},
			`bootstrap data of format "talos" is not supported; supported: cloud-config (also if no format is given) and ignition`},
		"UnknownVersion": {`{"ignition":{"version":"4.0.0"}}`, "ignition", added(), &bootdata.UnknownFormatError{},
			`bootstrap data of Ignition version "4.0.0" is not supported; supported: Ignition 2.0 to 2.4 and 3.0 to 3.6`},
		"ExperimentalVersion":         {`{"ignition":{"version":"3.7.0-experimental"}}`, "ignition", nil, &bootdata.UnknownFormatError{}, "3.7.0-experimental"},
		"NoVersion":                   {`{}`, "ignition", added(), &bootdata.UnknownFormatError{}, `Ignition version ""`},
		"Empty":                       {"", "", added(), &bootdata.UnparsableError{}, "does not start as cloud-init user data does"},
		"NoHeader":                    {"write_files: []\n", "", added(), &bootdata.UnparsableError{}, "does not start as"},
		"IgnitionSaidToBeCloudConfig": {`{"ignition":{"version":"3.1.0"}}`, "cloud-config", added(), &bootdata.UnparsableError{}, "does not start as"},
		"BrokenYAML":                  {"#cloud-config\na: [\n", "", added(), &bootdata.UnparsableError{}, "reading the YAML"},
		"Tab":                         {"#cloud-config\na:\n\tb: c\n", "", added(), &bootdata.UnparsableError{}, "line 3: found character that cannot start"},
		"ControlCharacter":            {"#cloud-config\na: \"x\x00y\"\n", "", added(), &bootdata.UnparsableError{}, "control characters are not allowed"},
		"NoUTF8":                      {"#cloud-config\na: \xff\xfe\n", "", added(), &bootdata.UnparsableError{}, "UTF-8"},
		"Binary":                      {"\x00\x01\x02", "", added(), &bootdata.UnparsableError{}, "does not start as cloud-init user data does"},
		"TwoDocuments":                {"#cloud-config\na: b\n---\nc: d\n", "", added(), &bootdata.UnparsableError{}, "more than one YAML document"},
		"NoMapping":                   {"#cloud-config\n- a\n", "", added(), &bootdata.UnparsableError{}, "not a mapping"},
		"NullList":                    {"#cloud-config\nwrite_files:\n", "", added(), &bootdata.UnparsableError{}, "write_files in line 2: cloud-init requires a list"},
		"NullListInTemplate":          {"## template: jinja\n#cloud-config\nwrite_files:\n", "", added(), &bootdata.UnparsableError{}, "write_files in line 3 is null"},
		"BrokenPart":                  {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n#cloud-config\na: [\n--b--\n", "", added(), &bootdata.UnparsableError{}, "reading the YAML"},
		"CutOffMIME":                  {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n#!/bin/sh\n", "", added(), &bootdata.UnparsableError{}, "the line that ends the parts is missing"},
		"NoBoundary":                  {"MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n", "", added(), &bootdata.UnparsableError{}, "no boundary"},
		"BrokenGzip":                  {"\x1f\x8b\x08\x00", "", added(), &bootdata.UnparsableError{}, "decompressing"},
		"BombOfGzip":                  {string(zipped(t, append([]byte("#!"), make([]byte, 32<<20)...))), "", added(), &bootdata.TooLargeError{}, "a Secret holds"},
		"BrokenJSON":                  {`{"ignition":`, "ignition", added(), &bootdata.UnparsableError{}, "unexpected end of JSON input"},
		"NoObject":                    {`[]`, "ignition", added(), &bootdata.UnparsableError{}, "cannot unmarshal array"},
		"EmptyIgnition":               {``, "ignition", added(), &bootdata.UnparsableError{}, "unexpected end of JSON input"},
		"NullIgnition":                {`null`, "ignition", added(), &bootdata.UnparsableError{}, "not an object"},
		"ReplacedConfig":              {`{"ignition":{"version":"3.1.0","config":{"replace":{"source":"https://a"}}}}`, "ignition", added(), &bootdata.UnparsableError{}, "ignition.config.replace"},
		"StorageTwice":                {`{"ignition":{"version":"3.1.0"},"storage":{},"Storage":{}}`, "ignition", added(), &bootdata.UnparsableError{}, `key "storage" occurs twice`},
		"StorageIsList":               {`{"ignition":{"version":"3.1.0"},"storage":[]}`, "ignition", added(), &bootdata.UnparsableError{}, `the parent of "files" is not an object`},
		"FilesAreObject":              {`{"ignition":{"version":"3.1.0"},"storage":{"files":{}}}`, "ignition", added(), &bootdata.UnparsableError{}, "storage.files is not a list"},
		"PathOfNumber":                {`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":7}]}}`, "ignition", added(), &bootdata.UnparsableError{}, "reading storage.files"},
		"TooLarge": {"#cloud-config\n#" + strings.Repeat("x", bootdata.Limit-20) + "\na: b\n", "", added(), &bootdata.TooLargeError{},
			fmt.Sprintf("bootstrap data of %d bytes would grow to", bootdata.Limit+1)},
		"RelativePath":  {"#!", "", []bootdata.File{{Path: "etc"}}, &bootdata.InvalidFileError{}, "not absolute"},
		"UncleanPath":   {"#!", "", []bootdata.File{{Path: "/etc//a"}}, &bootdata.InvalidFileError{}, "not absolute and clean"},
		"DirectoryPath": {"#!", "", []bootdata.File{{Path: "/etc/"}}, &bootdata.InvalidFileError{}, "not absolute and clean"},
		"JinjaPath":     {"#!", "", []bootdata.File{{Path: "/etc/{{a}}"}}, &bootdata.InvalidFileError{}, "not allowed"},
		"SetUID":        {"#!", "", []bootdata.File{{Path: "/etc/a", Mode: 0o4755}}, &bootdata.InvalidFileError{}, "permission bits"},
		"TwoOfOnePath":  {"#!", "", []bootdata.File{{Path: "/etc/a"}, {Path: "/etc/a"}}, &bootdata.InvalidFileError{}, "given twice"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := bootdata.Add([]byte(test.data), test.format, test.files)
			if err == nil {
				t.Fatalf("no error, got %q", got)
			}
			if want, is := fmt.Sprintf("%T", test.want), fmt.Sprintf("%T", err); want != is {
				t.Errorf("got a %s, want a %s", is, want)
			}
			if !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %q, want %q in it", err, test.message)
			}
		})
	}
}

// TestOwnFilesOfOthers expects that text of the user which resembles an own file stays.
func TestOwnFilesOfOthers(t *testing.T) {
	once, err := bootdata.Add([]byte("#cloud-config\nwrite_files:\n- path: /etc/one\n  content: one\n"), "", added())
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(once), "'0644'", "'0755'", 1)
	moved := strings.Replace(string(once), "write_files:\n", "write_files:\n- path: /etc/two\n", 1)
	inScript := "#!/bin/sh\ncat <<EOF\n" + string(once) + "EOF\n"
	for name, data := range map[string]string{"Edited": edited, "Moved": moved} {
		t.Run(name, func(t *testing.T) {
			_, err := bootdata.Add([]byte(data), "", added())
			if conflict := new(bootdata.ConflictError); !errors.As(err, &conflict) {
				t.Errorf("no conflict: %v", err)
			}
		})
	}
	got, err := bootdata.Add([]byte(inScript), "", nil)
	if err != nil || string(got) != inScript {
		t.Errorf("text of the user was removed: %v\n%s", err, cmp.Diff(inScript, string(got)))
	}
}

// TestManyComments expects that the effort grows with the size of the data, not with its square. A quadratic effort takes
// longer than the time limit of go test.
func TestManyComments(t *testing.T) {
	begin := "# metal3-files begin sha256:" + strings.Repeat("0", 64) + "\n"
	for name, comments := range map[string]string{
		"Empty":            strings.Repeat("#\n", 500_000),
		"BeginsWithoutEnd": strings.Repeat(begin, 160_000),
		"BeginsWithOneEnd": strings.Repeat(begin, 160_000) + "# metal3-files end\n",
	} {
		t.Run(name, func(t *testing.T) {
			const header = "#cloud-config\n"
			rest := comments + "a: b\n"
			packed := zipped(t, []byte(header+rest))
			got, err := bootdata.Add(packed, bootdata.CloudConfig, added())
			if err != nil {
				t.Fatal(err)
			}
			if text := string(unzipped(t, got)); !strings.HasPrefix(text, header+"# metal3-files begin ") ||
				!strings.HasSuffix(text, "# metal3-files end\n"+rest) {
				t.Error("the files are not between the header and the comments")
			}
			without, err := bootdata.Add(got, bootdata.CloudConfig, nil)
			if err != nil || string(unzipped(t, without)) != header+rest {
				t.Errorf("the data without the files differs from the data before: %v", err)
			}
		})
	}
}

// TestManyParts has the same expectation for parts of a template and of an archive.
func TestManyParts(t *testing.T) {
	for name, data := range map[string]string{
		"Jinja":   "## template: jinja\n#cloud-config\n" + strings.Repeat("{%{##}", 150_000),
		"Aliases": "#cloud-config-archive\n- &a |\n" + strings.Repeat("  #cloud-config xx\n", 200_000) + strings.Repeat("- *a\n", 200_000),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := bootdata.Add(zipped(t, []byte(data)), bootdata.CloudConfig, added()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
