package bmc

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

const (
	registries   = redfishRoot + "/Registries"
	biosRegistry = "LabBiosAttributeRegistry.v1_0_0"
)

// biosAttribute is a setting of a BIOS. All machines have the same attributes.
type biosAttribute struct {
	name string
	// initial is the value of a new machine.
	initial any
	// allowed are the values of an enumeration. If it is empty, the attribute is a number up to a limit.
	allowed []string
	limit   int
}

func biosAttributes() []biosAttribute {
	return []biosAttribute{
		{name: "BootDelaySeconds", initial: 0, limit: 60},
		{name: "ProcVirtualization", initial: "Enabled", allowed: []string{"Enabled", "Disabled"}},
	}
}

func newBIOS() map[string]any {
	values := map[string]any{}
	for _, attribute := range biosAttributes() {
		values[attribute.name] = attribute.initial
	}
	return values
}

// BIOS returns the active settings of the BIOS of a machine.
func (s *Server) BIOS(machine string) map[string]any {
	found := s.find(machine)
	if found == nil {
		return nil
	}
	found.mutex.Lock()
	defer found.mutex.Unlock()
	return maps.Clone(found.bios)
}

func readBIOS(_ context.Context, controller *controller, _ *exchange) (any, error) {
	path := systems + "/" + controller.name + "/Bios"
	controller.mutex.Lock()
	defer controller.mutex.Unlock()
	return object{
		"@odata.id": path, "Id": "Bios", "Name": "BIOS of " + controller.name, "AttributeRegistry": biosRegistry,
		"Attributes":        maps.Clone(controller.bios),
		"@Redfish.Settings": object{"SettingsObject": link(path + "/Settings"), "SupportedApplyTimes": []string{"OnReset"}},
	}, nil
}

func readPendingBIOS(_ context.Context, controller *controller, _ *exchange) (any, error) {
	controller.mutex.Lock()
	defer controller.mutex.Unlock()
	return object{
		"@odata.id": systems + "/" + controller.name + "/Bios/Settings", "Id": "Settings", "Name": "Pending settings",
		"AttributeRegistry": biosRegistry, "Attributes": maps.Clone(controller.pendingBIOS),
	}, nil
}

// setBIOS sets settings for the next start of the machine.
func setBIOS(_ context.Context, controller *controller, request *exchange) (any, error) {
	var wanted struct{ Attributes map[string]any }
	if err := decode(request, &wanted); err != nil {
		return nil, err
	}
	content, err := json.Marshal(wanted.Attributes)
	if err != nil {
		return nil, err
	}
	request.detail = string(content)
	for name, value := range wanted.Attributes {
		if !allowedInBIOS(name, value) {
			return nil, problem{http.StatusBadRequest, fmt.Errorf("the BIOS does not accept %v for %q", value, name)}
		}
	}
	controller.mutex.Lock()
	defer controller.mutex.Unlock()
	maps.Copy(controller.pendingBIOS, wanted.Attributes)
	return nil, nil
}

func allowedInBIOS(name string, value any) bool {
	return slices.ContainsFunc(biosAttributes(), func(attribute biosAttribute) bool {
		if attribute.name != name {
			return false
		}
		switch value := value.(type) {
		case string:
			return slices.Contains(attribute.allowed, value)
		case float64:
			return attribute.allowed == nil && value >= 0 && value <= float64(attribute.limit)
		default:
			return false
		}
	})
}

// startBIOS activates the settings for the next start.
func (c *controller) startBIOS() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	maps.Copy(c.bios, c.pendingBIOS)
	clear(c.pendingBIOS)
}

// serveRegistry serves the attributes and their values. It requires no credentials.
func serveRegistry(mux *http.ServeMux) {
	file := registries + "/" + biosRegistry
	for path, resource := range map[string]object{
		registries: collection(registries, biosRegistry),
		file: {
			"@odata.id": file, "@odata.type": "#MessageRegistryFile.v1_1_0.MessageRegistryFile", "Id": biosRegistry,
			"Name": "File of the attributes of a BIOS", "Languages": []string{"en"}, "Registry": biosRegistry,
			"Location": []object{{"Language": "en", "Uri": file + "/en"}},
		},
		file + "/en": {
			"@odata.id": file + "/en", "@odata.type": "#AttributeRegistry.v1_3_0.AttributeRegistry", "Id": biosRegistry,
			"Name": "Attributes of a BIOS", "Language": "en", "OwningEntity": "Lab", "RegistryVersion": "1.0.0",
			"RegistryEntries": object{"Attributes": registryEntries()},
		},
	} {
		mux.HandleFunc("GET "+path, func(writer http.ResponseWriter, _ *http.Request) {
			respond(writer, http.StatusOK, resource)
		})
	}
}

func registryEntries() []object {
	var entries []object
	for _, attribute := range biosAttributes() {
		entry := object{
			"AttributeName": attribute.name, "DefaultValue": attribute.initial, "ReadOnly": false, "ResetRequired": true,
		}
		if attribute.allowed == nil {
			entry["Type"], entry["LowerBound"], entry["UpperBound"] = "Integer", 0, attribute.limit
		} else {
			var values []object
			for _, value := range attribute.allowed {
				values = append(values, object{"ValueName": value, "ValueDisplayName": value})
			}
			entry["Type"], entry["Value"] = "Enumeration", values
		}
		entries = append(entries, entry)
	}
	return entries
}
