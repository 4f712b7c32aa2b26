package configdrive

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

func TestManagement(t *testing.T) {
	drive, err := Management("management", 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(drive) != 3 {
		t.Errorf("%d files, want 3", len(drive))
	}
	for path, content := range drive {
		golden.Equal(t, filepath.Join("management", filepath.Base(path)), content)
	}
}

// TestNetworkData requires different values for different machines.
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
