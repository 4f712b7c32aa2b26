package step

import (
	"errors"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"sigs.k8s.io/yaml"
)

// customDeployPriority puts the step of a custom deploy where Ironic writes an image otherwise.
const customDeployPriority = 80

// provision brings the image onto the host. A host that failed gives up what it got and starts over, as long as the
// image is still wanted.
func (d *decision) provision() *Step {
	if d.host.Status.ErrorType != "" || d.isCancelled() {
		return d.enter(bmov1alpha1.StateDeprovisioning)
	}
	wanted, problem := d.instanceInfo()
	if problem != "" {
		return d.fail(bmov1alpha1.ProvisioningError, "Validation failed: "+problem)
	}
	switch d.nodeState() {
	case nodes.Manageable:
		// Also where Ironic lost its database: the image is written again then.
		return d.load("cleaning the host", Provision{Target: nodes.TargetProvide})
	case nodes.CleanFail:
		return d.retryAfterCleaning()
	case nodes.Available, nodes.DeployFail:
		return d.deploy(wanted)
	case nodes.Active:
		return d.finishProvisioning()
	default:
		return d.wait("waiting until the image is on the host")
	}
}

func (d *decision) deploy(wanted map[string]any) *Step {
	node := d.seen.Node
	var changes nodes.UpdateOpts
	changes = change(changes, "/instance_uuid", node.InstanceUUID, string(d.host.UID))
	for _, key := range []string{
		"image_source", "image_disk_format", "image_checksum", "image_os_hash_algo", "image_os_hash_value",
	} {
		changes = change(changes, "/instance_info/"+key, node.InstanceInfo[key], wanted[key])
	}
	switch {
	case d.nodeState() == nodes.DeployFail && len(changes) == 0:
		return d.fail(bmov1alpha1.ProvisioningError,
			"Image provisioning failed: "+orElse(node.LastError, "Ironic does not say why"))
	case len(changes) > 0:
		return d.instruct("telling Ironic the image", Update{Changes: changes})
	}
	deploy := Deploy{}
	if method := methodOf(d.host.Spec.CustomDeploy); method != "" {
		deploy.Steps = []nodes.DeployStep{{
			Interface: nodes.InterfaceDeploy, Step: method, Args: map[string]any{}, Priority: customDeployPriority,
		}}
	}
	return d.load("writing the image", deploy)
}

// instanceInfo is what Ironic has to know of the image, or what is wrong with it in words for the user. A custom deploy
// may do without an image, and without a checksum.
func (d *decision) instanceInfo() (map[string]any, string) {
	image := d.host.Spec.Image
	isCustom := methodOf(d.host.Spec.CustomDeploy) != ""
	info := map[string]any{}
	if isCustom && (image == nil || image.URL == "") {
		return info, ""
	}
	if image.IsLiveISO() || image.OCIAuthSecretName != nil {
		return nil, "BMO of labs knows neither live ISO images nor registries with credentials"
	}
	info["image_source"] = image.URL
	if image.DiskFormat != nil {
		info["image_disk_format"] = *image.DiskFormat
	}
	checksum, algorithm, err := image.GetChecksum()
	switch {
	case err != nil && !isCustom:
		return nil, err.Error()
	case checksum == "":
	case algorithm == "":
		info["image_checksum"] = checksum
	default:
		info["image_os_hash_algo"], info["image_os_hash_value"] = algorithm, checksum
	}
	return info, ""
}

func (d *decision) finishProvisioning() *Step {
	d.clearError()
	d.dropRebootRequests()
	if d.host.Spec.Image != nil {
		d.host.Status.Provisioning.Image = *d.host.Spec.Image.DeepCopy()
	}
	d.host.Status.Provisioning.CustomDeploy = d.host.Spec.CustomDeploy.DeepCopy()
	return d.succeed(bmov1alpha1.StateProvisioned)
}

// Data is what a config drive is made of, as it lies in the Secrets that the host names. Empty means none.
type Data struct{ User, Network, Meta string }

// ConfigDrive makes the config drive of a host. Its meta-data tell who it is; the user's own come on top.
func ConfigDrive(host *bmov1alpha1.BareMetalHost, data Data) (nodes.ConfigDrive, error) {
	drive := nodes.ConfigDrive{MetaData: map[string]any{
		"uuid":             string(host.UID),
		"metal3-namespace": host.Namespace,
		"metal3-name":      host.Name,
		"local-hostname":   host.Name,
		"local_hostname":   host.Name,
		"name":             host.Name,
	}}
	if data.User != "" {
		drive.UserData = data.User
	}
	// Errors of the parser quote what they read, which may be secret.
	if yaml.Unmarshal([]byte(data.Network), &drive.NetworkData) != nil {
		return nodes.ConfigDrive{}, errors.New("the network data of the host are not a YAML or JSON object")
	}
	if yaml.Unmarshal([]byte(data.Meta), &drive.MetaData) != nil {
		return nodes.ConfigDrive{}, errors.New("the meta-data of the host are not a YAML or JSON object")
	}
	return drive, nil
}

// Refused decides what becomes of a host whose call Ironic refused with a message. It says no where a refusal is no
// verdict on the host, so that it can only be tried again.
func Refused(seen Seen, rules Rules, call Call, message string) (Step, bool) {
	d := &decision{seen: seen, rules: rules, host: seen.Host.DeepCopy()}
	switch call := call.(type) {
	case Enroll, AddPort:
		return *d.fail(bmov1alpha1.RegistrationError, message), true
	case Deploy:
		return *d.fail(bmov1alpha1.ProvisioningError, "Image provisioning failed: "+message), true
	case Power:
		return *d.fail(bmov1alpha1.PowerManagementError,
			fmt.Sprintf("Ironic refuses to change the power to %q: %s", call.Options.Target, message)), true
	default:
		return Step{}, false
	}
}
