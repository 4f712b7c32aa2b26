package bmc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/iso"
)

func readManager(_ context.Context, controller *controller, _ *exchange) (any, error) {
	path := managers + "/" + controller.name
	return object{
		"@odata.id": path, "Id": controller.name, "Name": "BMC of " + controller.name,
		"ManagerType": "BMC", "FirmwareVersion": "1.0", "VirtualMedia": link(path + "/VirtualMedia"),
		"Links": object{"ManagerForServers": []object{link(systems + "/" + controller.name)}},
	}, nil
}

func readSlots(_ context.Context, controller *controller, _ *exchange) (any, error) {
	return collection(managers+"/"+controller.name+"/VirtualMedia", fromCD), nil
}

func readSlot(_ context.Context, controller *controller, _ *exchange) (any, error) {
	path := managers + "/" + controller.name + "/VirtualMedia/Cd"
	controller.mutex.Lock()
	medium := controller.medium
	controller.mutex.Unlock()
	return object{
		"@odata.id": path, "Id": fromCD, "Name": "Virtual CD", "MediaTypes": []string{"CD", "DVD"},
		"Inserted": medium != "", "Image": medium, "WriteProtected": true, "ConnectedVia": "URI",
		"Actions": object{
			"#VirtualMedia.InsertMedia": object{"target": path + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  object{"target": path + "/Actions/VirtualMedia.EjectMedia"},
		},
	}, nil
}

// insertCD sets the address of a medium, which is read at the boot.
func insertCD(_ context.Context, controller *controller, request *exchange) (any, error) {
	var wanted struct{ Image string }
	if err := decode(request, &wanted); err != nil {
		return nil, err
	}
	request.detail = wanted.Image
	if parsed, err := url.Parse(wanted.Image); err != nil || parsed.Host == "" {
		return nil, problem{http.StatusBadRequest, errors.Join(fmt.Errorf("the URL of the image is %q", wanted.Image), err)}
	}
	controller.mutex.Lock()
	defer controller.mutex.Unlock()
	if controller.medium != "" {
		return nil, problem{http.StatusConflict, fmt.Errorf("the drive has %s: eject it first", controller.medium)}
	}
	controller.medium = wanted.Image
	return nil, nil
}

func ejectCD(_ context.Context, controller *controller, _ *exchange) (any, error) {
	controller.mutex.Lock()
	defer controller.mutex.Unlock()
	if !controller.fault.IgnoreEject {
		controller.medium = ""
	}
	return nil, nil
}

// downloadMedium reads the files of a medium at the boot of a machine.
func (s *Server) downloadMedium(ctx context.Context, address string) (map[string][]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, iso.Limit))
	if err != nil {
		return nil, err
	}
	return iso.Read(content)
}
