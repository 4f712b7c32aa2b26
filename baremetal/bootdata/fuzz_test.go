package bootdata_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
)

// FuzzUserData expects no panic, only typed errors, unchanged data of the user, and the same result from a second call.
func FuzzUserData(f *testing.F) {
	seeds(f, bootdata.CloudConfig)
	for _, seed := range []string{
		"#cloud-config\nwrite_files: &a\n- b: *a\n", "#cloud-config\n? write_files\n: - path: /a\n",
		"#cloud-config\n\"write_files\":\n- !!map {path: /a}\n", "## template: jinja\n#cloud-config\na: {{ \"}}\" }}\nb: c\n",
		"#cloud-config\na: 'b\nwrite_files:\n- c'\nd: e", "#cloud-config\n  a: b\n  write_files:\n  - path: /a\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"\"\n\n--\n\n----\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkAdding(t, data, bootdata.CloudConfig)
	})
}

// FuzzIgnition also expects that the config keeps its meaning, apart from the files.
func FuzzIgnition(f *testing.F) {
	seeds(f, bootdata.Ignition)
	f.Fuzz(func(t *testing.T, data []byte) {
		got, bare := checkAdding(t, data, bootdata.Ignition)
		if got == nil {
			return
		}
		before, after := ignitionMeaning(t, bare, 0), ignitionMeaning(t, got, len(added()))
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the config has another meaning:\n%s", diff)
		}
	})
}

func seeds(f *testing.F, wanted string) {
	f.Helper()
	for _, input := range samples(f) {
		if format(input) != wanted {
			continue
		}
		f.Add(input)
		once, err := bootdata.Add(input, wanted, changed())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(once)
		if wanted == bootdata.CloudConfig {
			f.Add(zipped(f, input))
		}
	}
}

// checkAdding returns the data with and without the files of this provider, or nil if the data is refused.
func checkAdding(t *testing.T, data []byte, format string) (got, bare []byte) {
	t.Helper()
	got, err := bootdata.Add(data, format, added())
	if err != nil {
		checkRefusal(t, err)
		return nil, nil
	}
	bare = adding(t, data, format, nil)
	if again := adding(t, got, format, added()); !bytes.Equal(got, again) {
		t.Errorf("adding again changed the data:\n%s", cmp.Diff(string(got), string(again)))
	}
	if once, twice := adding(t, data, format, changed()), adding(t, got, format, changed()); !bytes.Equal(once, twice) {
		t.Errorf("replacing differs from adding at once:\n%s", cmp.Diff(string(once), string(twice)))
	}
	without := adding(t, got, format, nil)
	if format == bootdata.CloudConfig && !bytes.Equal(plain(t, bare), plain(t, without)) {
		t.Errorf("the data without the files differs from the data before:\n%s", cmp.Diff(string(bare), string(without)))
	}
	if format == bootdata.CloudConfig && !bytes.Contains(data, []byte("metal3")) && !bytes.Equal(bare, data) {
		t.Errorf("adding nothing changed the data:\n%s", cmp.Diff(string(data), string(bare)))
	}
	return got, bare
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var unknown *bootdata.UnknownFormatError
	var unparsable *bootdata.UnparsableError
	var conflict *bootdata.ConflictError
	var large *bootdata.TooLargeError
	if !errors.As(err, &unknown) && !errors.As(err, &unparsable) && !errors.As(err, &conflict) && !errors.As(err, &large) {
		t.Errorf("an error without a type: %v", err)
	}
}

// plain decompresses the data: the same data may have several compressed forms.
func plain(t *testing.T, data []byte) []byte {
	t.Helper()
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return unzipped(t, data)
	}
	return data
}

func adding(t *testing.T, data []byte, format string, files []bootdata.File) []byte {
	t.Helper()
	got, err := bootdata.Add(data, format, files)
	if large := new(bootdata.TooLargeError); errors.As(err, &large) || errors.As(err, new(*bootdata.ConflictError)) {
		t.Skip("the other files are refused")
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// ignitionMeaning decodes a config and removes the first files, and lists that are empty without them.
func ignitionMeaning(t *testing.T, data []byte, own int) map[string]any {
	t.Helper()
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	keyOf := func(object map[string]any, wanted string) string {
		for key := range object {
			if strings.EqualFold(key, wanted) {
				return key
			}
		}
		return wanted
	}
	storageKey := keyOf(config, "storage")
	storage, _ := config[storageKey].(map[string]any)
	filesKey := keyOf(storage, "files")
	files, _ := storage[filesKey].([]any)
	if len(files) < own {
		t.Fatalf("%d files, of which %d should be own ones", len(files), own)
	}
	if len(files) == own {
		delete(storage, filesKey)
	} else {
		storage[filesKey] = files[own:]
	}
	if len(storage) == 0 {
		delete(config, storageKey)
	}
	return config
}
