package configdrive

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files in testdata instead of comparing with them")

func TestManagement(t *testing.T) {
	drive, err := Management("management", 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(drive) != 3 {
		t.Errorf("%d files, want 3", len(drive))
	}
	for path, content := range drive {
		compare(t, filepath.Join("testdata", "management", filepath.Base(path)), string(content))
	}
}

// TestNetworkData checks that machines do not share what has to be their own.
func TestNetworkData(t *testing.T) {
	seen := map[string]byte{}
	for _, number := range []byte{10, 20, 21, 89} {
		encoded, err := NetworkData(number)
		if err != nil {
			t.Fatal(err)
		}
		var data openStackNetwork
		if err := json.Unmarshal(encoded, &data); err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{data.Links[0].Address, data.Networks[0].Address, data.Networks[1].Address} {
			if other, taken := seen[value]; taken {
				t.Errorf("machines %d and %d both have %s", other, number, value)
			}
			seen[value] = number
		}
	}
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
