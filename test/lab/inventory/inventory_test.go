package inventory_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	goinventory "github.com/gophercloud/gophercloud/v2/openstack/baremetal/inventory"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/inventory"
)

func TestReportFitsClientsOfIronic(t *testing.T) {
	report, err := inventory.Of("one", 20)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Inventory goinventory.InventoryType `json:"inventory"`
		RootDisk  goinventory.RootDiskType  `json:"root_disk"`
	}
	if err := json.Unmarshal(content, &read); err != nil {
		t.Fatal(err)
	}
	const address = "02:22:00:00:00:14"
	found := read.Inventory
	if len(found.Interfaces) != 1 || len(found.Disks) != 1 {
		t.Fatalf("got the network cards %+v and the disks %+v, want one of each", found.Interfaces, found.Disks)
	}
	got := map[string]any{
		"MAC":            found.Interfaces[0].MACAddress,
		"IPv4":           found.Interfaces[0].IPV4Address,
		"IPv6":           found.Interfaces[0].IPV6Address,
		"host name":      found.Hostname,
		"serial number":  found.SystemVendor.SerialNumber,
		"boot card":      found.Boot.PXEInterface,
		"no BMC address": found.BmcAddress == "",
		"has processors": found.CPU.Count > 0 && found.CPU.Architecture != "",
		"has memory":     found.Memory.PhysicalMb > 0,
		"has disk space": found.Disks[0].Size > 1<<30,
		"root disk":      read.RootDisk.Name == found.Disks[0].Name,
	}
	want := map[string]any{
		"MAC": address, "IPv4": "172.22.0.20", "IPv6": "fd00:172:22::20", "host name": "one", "serial number": "one",
		"boot card": address, "no BMC address": true, "has processors": true, "has memory": true, "has disk space": true,
		"root disk": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}
