package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// power is how a power state or a power command is written.
type power struct {
	Power string `json:"power"`
}

func readPower(_ context.Context, controller *controller, _ *exchange) (any, error) {
	if controller.machine.Powered() {
		return power{"on"}, nil
	}
	return power{"off"}, nil
}

func setPower(ctx context.Context, controller *controller, request *exchange) (any, error) {
	var command power
	if err := decode(request, &command); err != nil {
		return nil, err
	}
	request.detail = command.Power
	commands := map[string]func(context.Context) error{
		"on":       controller.machine.PowerOn,
		"off":      controller.machine.PowerOff,
		"soft-off": controller.machine.Shutdown,
		"reboot":   controller.machine.Reset,
		"soft-reboot": func(ctx context.Context) error {
			if err := controller.machine.Shutdown(ctx); err != nil {
				return err
			}
			return controller.machine.PowerOn(ctx)
		},
	}
	do, known := commands[command.Power]
	if !known {
		return nil, problem{http.StatusBadRequest,
			fmt.Errorf("the power command is %q: use on, off, soft-off, reboot or soft-reboot", command.Power)}
	}
	if err := controller.currentFault().power(); err != nil {
		return nil, err
	}
	return nil, do(ctx)
}

func (s *Server) writeDisk(ctx context.Context, controller *controller, request *exchange) (any, error) {
	var command struct {
		Image string `json:"image"`
	}
	if err := decode(request, &command); err != nil {
		return nil, err
	}
	request.detail = command.Image
	if command.Image == "" {
		return nil, problem{http.StatusBadRequest, errors.New("the image is missing: give the URL of one")}
	}
	key, err := s.download(ctx, command.Image)
	if err != nil {
		return nil, problem{http.StatusBadGateway, fmt.Errorf("downloading image %s: %w", command.Image, err)}
	}
	return nil, controller.machine.WriteDisk(ctx, key)
}

func wipeDisk(ctx context.Context, controller *controller, _ *exchange) (any, error) {
	return nil, controller.machine.WipeDisk(ctx)
}

func insertMedia(_ context.Context, controller *controller, request *exchange) (any, error) {
	files, err := readMedia(request.Body)
	if err != nil {
		return nil, problem{http.StatusBadRequest, fmt.Errorf("reading the config drive: %w", err)}
	}
	return nil, controller.machine.InsertMedia(files)
}

func ejectMedia(_ context.Context, controller *controller, _ *exchange) (any, error) {
	return nil, controller.machine.EjectMedia()
}

func readInventory(_ context.Context, controller *controller, _ *exchange) (any, error) {
	return inventoryOf(controller)
}
