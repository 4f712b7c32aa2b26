package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/inventory"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
)

// hardware is the machine of the ramdisk.
type hardware struct {
	name   string
	number byte
	disk   *http.Client
}

func newHardware(name string, number byte) hardware {
	socket := path.Join(machine.BoardFolder, machine.DiskSocket)
	return hardware{name, number, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

func (h hardware) Inventory() (any, error) { return inventory.Of(h.name, h.number) }

func (h hardware) Erase(ctx context.Context) error { return h.request(ctx, http.MethodDelete, nil) }

func (h hardware) Write(ctx context.Context, image []byte, drive map[string][]byte) error {
	var read struct {
		RootFS string `json:"rootfs"`
	}
	if err := json.Unmarshal(image, &read); err != nil || read.RootFS == "" {
		return errors.Join(errors.New("not an image of this lab"), err)
	}
	body, err := json.Marshal(machine.DiskWrite{RootKey: read.RootFS, Drive: drive})
	if err != nil {
		return err
	}
	return h.request(ctx, http.MethodPut, body)
}

func (h hardware) request(ctx context.Context, method string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://board/disk", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := h.disk.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusNoContent {
		text, err := io.ReadAll(response.Body)
		return errors.Join(fmt.Errorf("the disk: %s", strings.TrimSpace(string(text))), err)
	}
	return nil
}

func (h hardware) PowerOff(context.Context) error { return powerOff() }
