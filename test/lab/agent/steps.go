package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/iso"
)

// managerVersions are the hardware managers of the agent with their versions.
var managerVersions = map[string]string{"generic_hardware_manager": "1.2"}

// manager is the hardware manager of the steps.
const manager = "GenericHardwareManager"

// steps are the steps of an agent on a machine.
type steps struct {
	machine  Machine
	download downloader
	book     *logbook
	// node is the URL of the image for InstallStep.
	node string
}

func (s steps) extensions() map[string]extension {
	return map[string]extension{
		"clean.get_clean_steps":       {do: s.cleanSteps},
		"clean.execute_clean_step":    {long: true, do: s.clean},
		"deploy.get_deploy_steps":     {do: s.deploySteps},
		"deploy.execute_deploy_step":  {long: true, do: s.deploy},
		"standby.get_partition_uuids": {do: nothing},
		"standby.sync":                {do: nothing},
		"standby.power_off":           {long: true, do: s.powerOff},
		"image.install_bootloader":    {long: true, do: nothing},
		"log.collect_system_logs":     {do: s.logs},
	}
}

// InstallStep is the deploy step of this agent for a custom deploy. It has its own image, and reads the config drive
// from the node.
const InstallStep = "install_node"

// nothing is a step that a machine without partitions and boot loaders does not require.
func nothing(context.Context, json.RawMessage) (any, error) { return map[string]string{}, nil }

// listed returns a step in the format of Ironic.
func listed(name string, priority int) map[string]any {
	return map[string]any{
		"step": name, "priority": priority, "interface": "deploy", "reboot_requested": false, "abortable": true,
	}
}

// ofManager returns steps by their hardware manager.
func ofManager(steps ...map[string]any) map[string]any { return map[string]any{manager: steps} }

func (s steps) cleanSteps(context.Context, json.RawMessage) (any, error) {
	return map[string]any{
		"clean_steps": ofManager(listed("erase_devices_metadata", 99)), "hardware_manager_version": managerVersions,
	}, nil
}

func (s steps) deploySteps(context.Context, json.RawMessage) (any, error) {
	return map[string]any{
		"deploy_steps":             ofManager(listed("write_image", 0), listed(InstallStep, 0)),
		"hardware_manager_version": managerVersions,
	}, nil
}

// stepParams are the parameters of a clean or deploy step.
type stepParams struct {
	Step          json.RawMessage   `json:"step"`
	CleanVersion  map[string]string `json:"clean_version"`
	DeployVersion map[string]string `json:"deploy_version"`
}

// read parses the step and returns its name.
func (p *stepParams) read(params json.RawMessage) (string, error) {
	if err := json.Unmarshal(params, p); err != nil {
		return "", fmt.Errorf("reading the parameters: %w", err)
	}
	var step struct {
		Name string `json:"step"`
	}
	if err := json.Unmarshal(p.Step, &step); err != nil {
		return "", fmt.Errorf("reading the step: %w", err)
	}
	for _, version := range []map[string]string{p.CleanVersion, p.DeployVersion} {
		if len(version) > 0 && !maps.Equal(version, managerVersions) {
			return "", errMismatch
		}
	}
	return step.Name, nil
}

func (s steps) clean(ctx context.Context, params json.RawMessage) (any, error) {
	var read stepParams
	name, err := read.read(params)
	if err == nil && name != "erase_devices_metadata" {
		err = fmt.Errorf("unknown clean step %q", name)
	}
	if err == nil {
		err = s.machine.Erase(ctx)
	}
	return map[string]any{"clean_result": nil, "clean_step": read.Step}, err
}

func (s steps) deploy(ctx context.Context, params json.RawMessage) (any, error) {
	var read stepParams
	name, err := read.read(params)
	switch {
	case err != nil:
	case name == "write_image":
		err = s.writeImage(ctx, read.Step)
	case name == InstallStep:
		err = s.install(ctx, params)
	default:
		err = fmt.Errorf("unknown deploy step %q", name)
	}
	return map[string]any{"deploy_result": nil, "deploy_step": read.Step}, err
}

func (s steps) writeImage(ctx context.Context, step json.RawMessage) error {
	var wanted struct {
		Args struct {
			Image imageInfo `json:"image_info"`
			Drive string    `json:"configdrive"`
		} `json:"args"`
	}
	if err := json.Unmarshal(step, &wanted); err != nil {
		return fmt.Errorf("reading the image to write: %w", err)
	}
	image, err := wanted.Args.Image.fetch(ctx, s.download)
	if err != nil {
		return err
	}
	var drive map[string][]byte
	if wanted.Args.Drive != "" {
		if drive, err = iso.ReadPacked(strings.NewReader(wanted.Args.Drive)); err != nil {
			return fmt.Errorf("reading the config drive: %w", err)
		}
	}
	return s.machine.Write(ctx, image, drive)
}

// install writes the image of this agent with the config drive of the node.
func (s steps) install(ctx context.Context, params json.RawMessage) error {
	var wanted struct {
		Node struct {
			Instance struct {
				Drive *struct {
					MetaData    json.RawMessage `json:"meta_data"`
					NetworkData json.RawMessage `json:"network_data"`
					UserData    string          `json:"user_data"`
				} `json:"configdrive"`
			} `json:"instance_info"`
		} `json:"node"`
	}
	if err := json.Unmarshal(params, &wanted); err != nil {
		return fmt.Errorf("reading the node to install: %w", err)
	}
	image, err := s.download(ctx, s.node)
	if err != nil {
		return failure("ImageDownloadError", "Error downloading image", fmt.Sprintf("%s: %v", s.node, err))
	}
	drive := map[string][]byte{}
	if given := wanted.Node.Instance.Drive; given != nil {
		for name, content := range map[string][]byte{
			"meta_data.json": given.MetaData, "network_data.json": given.NetworkData, "user_data": []byte(given.UserData),
		} {
			if len(content) > 0 {
				drive[path.Join("openstack/latest", name)] = content
			}
		}
	}
	return s.machine.Write(ctx, image, drive)
}

// answerFirst is the time for the response before the machine is off.
const answerFirst = 200 * time.Millisecond

func (s steps) powerOff(ctx context.Context, _ json.RawMessage) (any, error) {
	time.AfterFunc(answerFirst, func() { _ = s.machine.PowerOff(context.WithoutCancel(ctx)) })
	return map[string]string{}, nil
}

// logs returns the log of the agent.
func (s steps) logs(context.Context, json.RawMessage) (any, error) {
	packed, err := s.book.pack(time.Now())
	if err != nil {
		return nil, err
	}
	return map[string]string{"system_logs": base64.StdEncoding.EncodeToString(packed)}, nil
}
