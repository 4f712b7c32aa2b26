package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// The Redfish resources that Ironic's driver and its library use. One manager with one virtual CD controls each system.
// Both have the name of the machine.
const (
	redfishRoot = "/redfish/v1"
	systems     = redfishRoot + "/Systems"
	managers    = redfishRoot + "/Managers"

	sessionService = redfishRoot + "/SessionService"
	sessions       = sessionService + "/Sessions"
)

// Values of BootSourceOverrideTarget and BootSourceOverrideEnabled.
const (
	fromCD     = "Cd"
	fromDisk   = "Hdd"
	fromNone   = "None"
	bootOnce   = "Once"
	bootAlways = "Continuous"
	bootNormal = "Disabled"
)

// object is a Redfish resource.
type object map[string]any

// link returns a reference to a resource.
func link(path string) object { return object{"@odata.id": path} }

func collection(path string, members ...string) object {
	links := make([]object, 0, len(members))
	for _, member := range members {
		links = append(links, link(path+"/"+member))
	}
	return object{"@odata.id": path, "Name": "Collection", "Members": links, "Members@odata.count": len(links)}
}

// redfish returns the routes below the resources of a machine.
func (s *Server) redfish() map[string]route {
	system, manager := systems+"/{machine}", managers+"/{machine}"
	return map[string]route{
		"GET " + system:   {"system", readSystem},
		"PATCH " + system: {"boot", changing(setBoot)},
		"POST " + system + "/Actions/ComputerSystem.Reset":                      {"reset", s.reset},
		"GET " + system + "/EthernetInterfaces":                                 {"cards", readCards},
		"GET " + system + "/EthernetInterfaces/eth0":                            {"card", readCard},
		"GET " + system + "/Bios":                                               {"bios", readBIOS},
		"GET " + system + "/Bios/Settings":                                      {"pending bios", readPendingBIOS},
		"PATCH " + system + "/Bios/Settings":                                    {"pending bios", changing(setBIOS)},
		"GET " + manager:                                                        {"manager", readManager},
		"GET " + manager + "/VirtualMedia":                                      {"slots", readSlots},
		"GET " + manager + "/VirtualMedia/Cd":                                   {"slot", readSlot},
		"POST " + manager + "/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia": {"insert", changing(insertCD)},
		"POST " + manager + "/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia":  {"eject", changing(ejectCD)},
	}
}

// serviceRoot requires no credentials.
func serviceRoot(writer http.ResponseWriter, _ *http.Request) {
	respond(writer, http.StatusOK, object{
		"@odata.id": redfishRoot + "/", "Id": "RootService", "Name": "BMCs of the lab",
		"RedfishVersion": "1.6.0", "Systems": link(systems), "Managers": link(managers),
		"Registries": link(registries), "SessionService": link(sessionService), "Links": object{"Sessions": link(sessions)},
	})
}

func readSystem(_ context.Context, controller *controller, _ *exchange) (any, error) {
	path := systems + "/" + controller.name
	state := "Off"
	if controller.machine.Powered() {
		state = "On"
	}
	boot := controller.bootSource()
	return object{
		"@odata.id": path, "Id": controller.name, "Name": controller.name, "SerialNumber": controller.name,
		"Manufacturer": "Lab", "Model": "Lab Machine", "BiosVersion": "1.0", "PowerState": state,
		"Boot": object{
			"BootSourceOverrideTarget": boot.Target, "BootSourceOverrideEnabled": boot.Enabled,
			"BootSourceOverrideMode":                           "UEFI",
			"BootSourceOverrideTarget@Redfish.AllowableValues": bootTargets,
		},
		"Links":              object{"ManagedBy": []object{link(managers + "/" + controller.name)}},
		"EthernetInterfaces": link(path + "/EthernetInterfaces"), "Bios": link(path + "/Bios"),
		"Actions": object{"#ComputerSystem.Reset": object{
			"target":                            path + "/Actions/ComputerSystem.Reset",
			"ResetType@Redfish.AllowableValues": resetTypes,
		}},
	}, nil
}

var (
	bootTargets = []string{fromNone, fromCD, fromDisk}
	resetTypes  = []string{"On", forceOff, gracefulShutdown, gracefulRestart, forceRestart}
)

// Values of ResetType beside On.
const (
	forceOff         = "ForceOff"
	forceRestart     = "ForceRestart"
	gracefulShutdown = "GracefulShutdown"
	gracefulRestart  = "GracefulRestart"
)

// bootSource is the source of the next boot, in the words of Redfish.
type bootSource struct {
	Target  string `json:"BootSourceOverrideTarget"`
	Enabled string `json:"BootSourceOverrideEnabled"`
	Mode    string `json:"BootSourceOverrideMode,omitempty"`
}

func (c *controller) bootSource() bootSource {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.boot
}

func setBoot(_ context.Context, controller *controller, request *exchange) (any, error) {
	var wanted struct{ Boot bootSource }
	wanted.Boot = controller.bootSource()
	if err := decode(request, &wanted); err != nil {
		return nil, err
	}
	request.detail = wanted.Boot.Target + " " + wanted.Boot.Enabled
	switch {
	case !slices.Contains(bootTargets, wanted.Boot.Target):
		return nil, problem{http.StatusBadRequest,
			fmt.Errorf("BootSourceOverrideTarget is %q: use one of %v", wanted.Boot.Target, bootTargets)}
	case wanted.Boot.Mode != "" && wanted.Boot.Mode != "UEFI":
		return nil, problem{http.StatusBadRequest,
			fmt.Errorf("BootSourceOverrideMode is %q: the machine boots UEFI only", wanted.Boot.Mode)}
	}
	controller.mutex.Lock()
	defer controller.mutex.Unlock()
	controller.boot = wanted.Boot
	return nil, nil
}

// reset changes the power. Like a real BMC, it answers a graceful command at once, and the client reads PowerState. A
// forced command ends a running graceful one.
func (s *Server) reset(ctx context.Context, controller *controller, request *exchange) (any, error) {
	var command struct{ ResetType string }
	if err := decode(request, &command); err != nil {
		return nil, err
	}
	request.detail = command.ResetType
	do, known := s.resets(controller)[command.ResetType]
	if !known {
		return nil, problem{http.StatusBadRequest,
			fmt.Errorf("ResetType is %q: use one of %v", command.ResetType, resetTypes)}
	}
	fault := controller.currentFault()
	if err := fault.power(); err != nil || fault.IgnorePower {
		return nil, err
	}
	switch command.ResetType {
	case gracefulShutdown, gracefulRestart:
		controller.startGraceful(ctx, do)
		return nil, nil
	case forceOff, forceRestart:
		controller.endGraceful()
	}
	return changing(only(do))(ctx, controller, request)
}

// resets returns the functions for the values of ResetType.
func (s *Server) resets(controller *controller) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"On":     func(ctx context.Context) error { return s.powerOn(ctx, controller) },
		forceOff: controller.machine.PowerOff,
		forceRestart: func(ctx context.Context) error {
			return errors.Join(controller.machine.PowerOff(ctx), s.powerOn(ctx, controller))
		},
		gracefulShutdown: controller.machine.Shutdown,
		gracefulRestart: func(ctx context.Context) error {
			if err := controller.machine.Shutdown(ctx); err != nil {
				return err
			}
			return s.powerOn(ctx, controller)
		},
	}
}

// startGraceful starts a graceful command, which replaces an earlier one, and does not block until its end. Without a
// running operation the command starts before startGraceful returns, so that the next change of the machine follows it.
func (c *controller) startGraceful(ctx context.Context, do func(context.Context) error) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), operationLimit)
	c.endGraceful()
	c.mutex.Lock()
	c.endCommand = end
	c.mutex.Unlock()
	begun := false
	select {
	case c.operation <- struct{}{}:
		begun = true
	default:
	}
	go func() {
		defer end()
		if !begun {
			select {
			case c.operation <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		defer func() { <-c.operation }()
		// A system that ignores the command stays on, which the client can read.
		_ = do(ctx)
	}()
}

// endGraceful ends the running or waiting graceful command, if there is one.
func (c *controller) endGraceful() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.endCommand != nil {
		c.endCommand()
	}
}

// only returns an answer with an empty response.
func only(do func(context.Context) error) answer {
	return func(ctx context.Context, _ *controller, _ *exchange) (any, error) { return nil, do(ctx) }
}

// powerOn boots from the boot source: the medium in the CD drive, or the disk.
func (s *Server) powerOn(ctx context.Context, controller *controller) error {
	controller.mutex.Lock()
	boot, medium := controller.boot, controller.medium
	controller.mutex.Unlock()
	if controller.machine.Powered() {
		return nil
	}
	controller.startBIOS()
	if boot.Target != fromCD || boot.Enabled == bootNormal || medium == "" {
		return controller.machine.PowerOn(ctx)
	}
	files, err := s.downloadMedium(ctx, medium)
	if err != nil {
		return problem{http.StatusInternalServerError, fmt.Errorf("reading the virtual medium %s: %w", medium, err)}
	}
	if boot.Enabled == bootOnce {
		controller.mutex.Lock()
		controller.boot = bootSource{Target: fromNone, Enabled: bootNormal}
		controller.mutex.Unlock()
	}
	return controller.machine.PowerOnFrom(ctx, files)
}

func readCards(_ context.Context, controller *controller, _ *exchange) (any, error) {
	return collection(systems+"/"+controller.name+"/EthernetInterfaces", "eth0"), nil
}

func readCard(_ context.Context, controller *controller, _ *exchange) (any, error) {
	return object{
		"@odata.id": systems + "/" + controller.name + "/EthernetInterfaces/eth0", "Id": "eth0", "Name": "eth0",
		"MACAddress": network.HardwareAddress(controller.machine.Port().Number).String(),
		"Status":     object{"State": "Enabled", "Health": "OK"},
	}, nil
}
