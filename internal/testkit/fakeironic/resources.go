package fakeironic

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

func (s *Server) listDrivers(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"drivers": []any{map[string]any{"name": driver, "hosts": []string{"fake"}}}})
}

// driver is the driver of all management controllers. The other constants are keys of its driver_info.
const (
	driver      = "redfish"
	addressKey  = "redfish_address"
	systemKey   = "redfish_system_id"
	passwordKey = "redfish_password"
)

// showVersion returns the versions of the API. BMO requires 1.89 at least.
func (s *Server) showVersion(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"version": map[string]any{
		"id": "v1", "min_version": "1.1", "version": "1.96", "status": "CURRENT", "links": []any{},
	}})
}

// validate checks whether a node can be deployed.
func (s *Server) validate(node *record, _ *http.Request) (int, any) {
	valid := map[string]any{"result": true}
	deploy := valid
	if lacksImage(node) {
		deploy = map[string]any{"result": false, "reason": "instance_info lacks image_source"}
	}
	return http.StatusOK, map[string]any{"boot": valid, "deploy": deploy, "power": valid, "management": valid}
}

// settings returns the firmware settings of a node: one setting that never changes.
func (s *Server) settings(*record, *http.Request) (int, any) {
	return http.StatusOK, map[string]any{"bios": []map[string]any{{
		"name": "ProcVirtualization", "value": "Enabled", "attribute_type": "Enumeration",
		"allowable_values": []string{"Enabled", "Disabled"}, "read_only": false, "unique": false,
	}}}
}

// firmware returns the firmware components of a node: none.
func (s *Server) firmware(*record, *http.Request) (int, any) {
	return http.StatusOK, map[string]any{"firmware": []any{}}
}

func (s *Server) listNodes(w http.ResponseWriter, _ *http.Request) {
	list := []nodes.Node{}
	for _, node := range s.nodes {
		list = append(list, masked(node))
	}
	answer(w, http.StatusOK, map[string]any{"nodes": list})
}

func (s *Server) enroll(w http.ResponseWriter, r *http.Request) {
	node := &record{}
	if read(r, &node.Node) != nil {
		answer(w, http.StatusBadRequest, fault("the node cannot be read"))
		return
	}
	switch {
	case node.Driver != driver:
		answer(w, http.StatusBadRequest, fault("No valid host was found. Reason: No conductor supports driver %s.",
			node.Driver))
		return
	case s.find(node.Name) != nil:
		answer(w, http.StatusConflict, fault("A node with name %s already exists.", node.Name))
		return
	}
	node.UUID, node.ProvisionState = s.id("0001"), string(nodes.Enroll)
	s.nodes[node.UUID] = node
	s.record(node, "enroll")
	answer(w, http.StatusCreated, masked(node))
}

func (s *Server) show(node *record, _ *http.Request) (int, any) {
	node.looks++
	return http.StatusOK, masked(node)
}

// masked returns a node as Ironic shows it, without its password.
func masked(node *record) nodes.Node {
	shown := node.Node
	shown.DriverInfo = maps.Clone(node.DriverInfo)
	if _, has := shown.DriverInfo[passwordKey]; has {
		shown.DriverInfo[passwordKey] = "******"
	}
	return shown
}

func (s *Server) update(node *record, r *http.Request) (int, any) {
	var patch json.RawMessage
	if err := read(r, &patch); err != nil {
		return http.StatusBadRequest, fault("the patch cannot be read")
	}
	changed, err := patched(node.Node, patch)
	if err != nil {
		return http.StatusBadRequest, fault("Couldn't apply patch: %s", err)
	}
	node.Node = changed
	s.record(node, "update")
	return http.StatusOK, masked(node)
}

func patched(node nodes.Node, patch []byte) (nodes.Node, error) {
	if node.InstanceInfo == nil {
		node.InstanceInfo = map[string]any{}
	}
	before, err := json.Marshal(node)
	if err != nil {
		return nodes.Node{}, err
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nodes.Node{}, err
	}
	after, err := operations.Apply(before)
	if err != nil {
		return nodes.Node{}, err
	}
	changed := nodes.Node{}
	return changed, json.Unmarshal(after, &changed)
}

func (s *Server) remove(node *record, _ *http.Request) (int, any) {
	state := nodes.ProvisionState(node.ProvisionState)
	free := state == nodes.Enroll || state == nodes.Manageable || state == nodes.Available
	if !free && !node.Maintenance {
		return http.StatusBadRequest, fault("Can not delete node %q while it is in provision state %q.", node.UUID, state)
	}
	if node.InstanceUUID != "" && !node.Maintenance {
		return http.StatusConflict, fault("Node %s is associated with instance %s.", node.UUID, node.InstanceUUID)
	}
	delete(s.nodes, node.UUID)
	maps.DeleteFunc(s.ports, func(_ string, one port) bool { return one.Node == node.UUID })
	s.record(node, "remove")
	return http.StatusNoContent, nil
}

func (s *Server) inventory(node *record, _ *http.Request) (int, any) {
	if !node.inventory {
		return http.StatusNotFound, fault("Inventory of node %s not found.", node.UUID)
	}
	address := ""
	for _, one := range s.ports {
		if one.Node == node.UUID && one.PXE {
			address = one.Address
		}
	}
	interfaces := []map[string]any{
		{"name": "eth0", "mac_address": address, "ipv4_address": "172.22.0.20", "speed_mbps": 10000},
	}
	for i, card := range node.cards {
		interfaces = append(interfaces, map[string]any{"name": fmt.Sprintf("eth%d", i+1), "mac_address": card})
	}
	return http.StatusOK, map[string]any{
		"inventory": map[string]any{
			"cpu": map[string]any{
				"architecture": "x86_64", "count": 2, "frequency": "2400.0", "flags": []string{"b", "a"},
			},
			"memory":        map[string]any{"physical_mb": 2048},
			"hostname":      "fake",
			"interfaces":    interfaces,
			"disks":         []map[string]any{{"name": "/dev/sda", "size": 1 << 30}},
			"system_vendor": map[string]any{"manufacturer": "fake"},
		},
		"plugin_data": map[string]any{"all_interfaces": map[string]any{"eth0": map[string]any{"pxe_enabled": true}}},
	}
}

func (s *Server) listPorts(w http.ResponseWriter, r *http.Request) {
	node, address := r.URL.Query().Get("node_uuid"), r.URL.Query().Get("address")
	list := []port{}
	for _, one := range s.ports {
		if (node == "" || one.Node == node) && (address == "" || one.Address == address) {
			list = append(list, one)
		}
	}
	answer(w, http.StatusOK, map[string]any{"ports": list})
}

func (s *Server) addPort(w http.ResponseWriter, r *http.Request) {
	added := port{UUID: s.id("0002")}
	if read(r, &added) != nil || s.nodes[added.Node] == nil {
		answer(w, http.StatusBadRequest, fault("the port cannot be read"))
		return
	}
	added.Address = strings.ToLower(added.Address)
	for _, one := range s.ports {
		if one.Address == added.Address {
			answer(w, http.StatusConflict, fault("A port with MAC address %s already exists.", one.Address))
			return
		}
	}
	s.ports[added.UUID] = added
	s.record(s.nodes[added.Node], "port")
	answer(w, http.StatusCreated, added)
}
