package pivot

import (
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// AttachmentDefinition is the CRD of HostNetworkAttachments.
const AttachmentDefinition = "hostnetworkattachments.metal3.io"

// MoveLabels returns the labels that a move requires on a CRD of BMO or of its address manager, and nothing for other
// CRDs. clusterctl moves only kinds whose CRD has the first label.
//
//	definition                                             discover  move  hierarchy  because
//	baremetalhosts                                         x         x     x          nothing owns it; it owns the rest
//	baremetalswitches                                      x         x     x          nothing owns them; they own Secrets
//	hardwaredata, dataimages, hostupdatepolicies           x         x                not every one has an owner
//	bmceventsubscriptions, hostclaims, hostdeploypolicies  x         x                nothing owns them
//	ippools                                                x         x     x          not every one has an owner
//	ipclaims, ipaddresses                                  x                          a pool owns them, directly or not
//	hostnetworkattachments                                 x                          a move would fail: BMO refuses to
//	                                                                                  delete one that a host references
//	all others                                             x                          a host owns them, directly or not
func MoveLabels(definition string) []string {
	switch definition {
	case "baremetalhosts.metal3.io", "baremetalswitches.metal3.io", "ippools.ipam.metal3.io":
		return []string{infrav1.DiscoverLabel, infrav1.MoveLabel, infrav1.MoveHierarchyLabel}
	case "hardwaredata.metal3.io", "dataimages.metal3.io", "hostupdatepolicies.metal3.io",
		"bmceventsubscriptions.metal3.io", "hostclaims.metal3.io", "hostdeploypolicies.metal3.io":
		return []string{infrav1.DiscoverLabel, infrav1.MoveLabel}
	case "hostfirmwaresettings.metal3.io", "hostfirmwarecomponents.metal3.io", "firmwareschemas.metal3.io",
		"preprovisioningimages.metal3.io", AttachmentDefinition,
		"ipclaims.ipam.metal3.io", "ipaddresses.ipam.metal3.io":
		return []string{infrav1.DiscoverLabel}
	default:
		return nil
	}
}

// MissingLabels returns the labels that a definition lacks. The value of a label does not matter.
func MissingLabels(definition string, labels map[string]string) []string {
	var keys []string
	for _, key := range MoveLabels(definition) {
		if _, there := labels[key]; !there {
			keys = append(keys, key)
		}
	}
	return keys
}
