package vip

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path"
	"slices"
	"time"
)

// Role is the side of a pivot that a node is on.
type Role string

// Values of Role.
const (
	// Management is the management cluster. It has the highest priority before the move.
	Management Role = "Management"

	// ControlPlane is a control-plane node of the cluster.
	ControlPlane Role = "ControlPlane"
)

// Mode is the mode of the advertisements. Its values are those of the API.
type Mode string

// Values of Mode.
const (
	Unicast   Mode = "Unicast"
	Multicast Mode = "Multicast"
)

// Takeover says when a node may hold the VIPs. Its values are those of the API.
type Takeover string

// Values of Takeover.
const (
	AfterMove Takeover = "AfterMove"
	Always    Takeover = "Always"
	Manual    Takeover = "Manual"
)

// Standby says whether Ironic runs on nodes that do not hold the VIPs. Its values are those of the API.
type Standby string

// Values of Standby.
const (
	// Warm means that a node may hold the VIPs only while its Ironic is healthy.
	Warm Standby = "Warm"

	// Cold means that Ironic starts when the node gets the VIPs, so its health is unknown before.
	Cold Standby = "Cold"
)

// Names of the files in the state directory of a node. keepalived watches them.
const (
	// HealthFile says whether the Ironic of the node is healthy.
	HealthFile = "ironic-ok"

	// ArmedFile says whether the node may hold the VIPs.
	ArmedFile = "armed"
)

// NodeSettings are the settings of the guard of a node, without facts of the node itself: its name, its own addresses,
// and its rank among the members.
type NodeSettings struct {
	// ClusterID is the prefix of the name of every conductor of the cluster.
	ClusterID string `json:"clusterID"`

	// Role of the node.
	Role Role `json:"role"`

	// Interface for the VIPs. It may appear after the start of the guard. Exactly one of Interface, MACAddresses and
	// InterfaceCIDR is set.
	Interface string `json:"interface,omitempty"`

	// MACAddresses select the interface with one of these addresses, written like 52:54:00:00:00:0a.
	MACAddresses []string `json:"macAddresses,omitempty"`

	// InterfaceCIDR selects the interface with an own address of the node in this network. It is in its masked form.
	InterfaceCIDR netip.Prefix `json:"interfaceCIDR,omitzero"`

	// VirtualIPs are one or two VIPs of different families. URLs have the first VIP.
	VirtualIPs []Address `json:"virtualIPs"`

	// VirtualRouterID of the group, 3 to 255.
	VirtualRouterID int `json:"virtualRouterID"`

	// Mode of all members of the group.
	Mode Mode `json:"mode"`

	// Peers are the own addresses of all members, this node among them, sorted. Empty in mode Multicast.
	Peers []netip.Addr `json:"peers,omitempty"`

	// AdvertisementInterval is the interval between advertisements of the holder, a multiple of 10 ms.
	AdvertisementInterval Duration `json:"advertisementInterval"`

	// TakeoverWithin is the time limit of a takeover, if the interval is short enough. Zero means after three
	// advertisements.
	TakeoverWithin Duration `json:"takeoverWithin,omitzero"`

	// Takeover says when the node may hold the VIPs. Role Management always may, unless it was demoted.
	Takeover Takeover `json:"takeover"`

	// TakeoverAfterSilence permits an unarmed node to take VIPs that no node has held for this time. Zero means never.
	TakeoverAfterSilence Duration `json:"takeoverAfterSilence,omitzero"`

	// Standby says whether a node requires a healthy Ironic to hold the VIPs.
	Standby Standby `json:"standby"`

	// Ports of the services on the node.
	Ports Ports `json:"ports"`

	// Files that the guard reads and writes.
	Files Files `json:"files"`

	// Images are the files that the web server must serve before the node may hold the VIPs, such as the deploy kernel
	// and ramdisk. None means no check.
	Images []string `json:"images,omitempty"`

	// ArmedAnnotation on the Node of the guard permits it to hold the VIPs, with takeover AfterMove.
	ArmedAnnotation Annotation `json:"armedAnnotation"`
}

// Ports are the ports of Ironic.
type Ports struct {
	API      int `json:"api"`
	Image    int `json:"image"`
	ImageTLS int `json:"imageTLS"`
}

// Files are absolute paths on the node.
type Files struct {
	// Socket is the socket of Ironic.
	Socket string `json:"socket"`

	// Authority is the CA of the certificate of Ironic.
	Authority string `json:"authority"`

	// State is the directory that the pods of the node share. It contains ironic-ok, armed and holder.
	State string `json:"state"`

	// Kubeconfig is the kubeconfig of the kubelet, for reads of the Node. Empty means that the guard reads no API
	// server.
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

// PeersAnnotation on a Node has addresses, separated by commas, that the guard of the node adds to its Peers.
const PeersAnnotation = "ironic.infrastructure.cluster.x-k8s.io/peers"

// Annotation is a name and the value with an effect.
type Annotation struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Conductor returns the name of the Ironic conductor on a node. The name identifies the cluster and the node that
// answer at the VIP.
func (s NodeSettings) Conductor(node string) string {
	return Conductor(s.ClusterID, node)
}

// Conductor returns the name of the conductor of a cluster on a node.
func Conductor(clusterID, node string) string {
	return clusterID + "-" + node
}

// Encode returns the settings as JSON. The same settings give the same bytes. It returns an error for settings that
// Decode rejects.
func (s NodeSettings) Encode() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("writing the settings of the guard: %w", err)
	}
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the settings of the guard: %w", err)
	}
	return append(content, '\n'), nil
}

// Decode parses settings. It returns an error for an unknown field: the writer of the field requires its effect.
func Decode(content []byte) (NodeSettings, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var settings NodeSettings
	if err := decoder.Decode(&settings); err != nil {
		return NodeSettings{}, fmt.Errorf("reading the settings of the guard: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return NodeSettings{}, errors.New("reading the settings of the guard: there is more than one JSON object; keep one")
	}
	if err := settings.check(); err != nil {
		return NodeSettings{}, fmt.Errorf("reading the settings of the guard: %w", err)
	}
	return settings, nil
}

func (s NodeSettings) check() error {
	for _, check := range []func() error{s.checkWords, s.checkAddresses, s.checkTimes, s.checkNumbers, s.checkFiles} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (s NodeSettings) checkWords() error {
	if s.ClusterID == "" {
		return errors.New("clusterID is empty; it identifies the Ironic of a cluster")
	}
	return errors.Join(
		s.checkInterface(),
		oneOf("role", s.Role, Management, ControlPlane),
		oneOf("mode", s.Mode, Unicast, Multicast),
		oneOf("takeover", s.Takeover, AfterMove, Always, Manual),
		oneOf("standby", s.Standby, Warm, Cold),
	)
}

func (s NodeSettings) checkInterface() error {
	ways := 0
	for _, given := range []bool{s.Interface != "", len(s.MACAddresses) > 0, s.InterfaceCIDR.IsValid()} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return fmt.Errorf("interface is %q, macAddresses are %q and interfaceCIDR is %q; set exactly one of them",
			s.Interface, s.MACAddresses, s.InterfaceCIDR)
	}
	if s.InterfaceCIDR != s.InterfaceCIDR.Masked() {
		return fmt.Errorf("interfaceCIDR is %s; write %s", s.InterfaceCIDR, s.InterfaceCIDR.Masked())
	}
	for _, text := range s.MACAddresses {
		if canonical, err := MACAddress(text); err != nil || canonical != text {
			return fmt.Errorf("macAddresses have %q; write addresses like 52:54:00:00:00:0a", text)
		}
	}
	return nil
}

// MACAddress returns the address in the form of the settings. It returns an error unless it is one of 48 bits that a
// single interface can have.
func MACAddress(text string) (string, error) {
	parsed, err := net.ParseMAC(text)
	if err != nil || len(parsed) != 6 || parsed[0]&1 != 0 || !slices.ContainsFunc(parsed, isNotZero) {
		return "", fmt.Errorf("%q is not the MAC address of an interface; write it like 52:54:00:00:00:0a", text)
	}
	return parsed.String(), nil
}

func isNotZero(part byte) bool { return part != 0 }

func oneOf[word ~string](field string, value word, allowed ...word) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s is %q; use one of %q", field, value, allowed)
}

func (s NodeSettings) checkAddresses() error {
	for _, address := range s.VirtualIPs {
		if err := address.check(); err != nil {
			return err
		}
	}
	if err := checkFamilies(s.VirtualIPs); err != nil {
		return err
	}
	if s.Mode == Multicast {
		return nil
	}
	if err := checkMembers(s.Peers, s.VirtualIPs); err != nil {
		return err
	}
	for _, address := range s.VirtualIPs {
		members := slices.DeleteFunc(slices.Clone(s.Peers),
			func(peer netip.Addr) bool { return peer.Is4() != address.Address.Is4() })
		if len(members) < 2 {
			return fmt.Errorf("mode Unicast requires the own addresses of all nodes that may hold %s, at least two, and "+
				"there are %d; list them, or use mode Multicast", address.Address, len(members))
		}
	}
	return nil
}

func (s NodeSettings) checkTimes() error {
	const step, longest = 10 * time.Millisecond, 40 * time.Second
	interval := time.Duration(s.AdvertisementInterval)
	switch {
	case interval < step || interval > longest || interval%step != 0:
		return fmt.Errorf("advertisementInterval is %s; use a multiple of %s up to %s", interval, step, longest)
	case s.TakeoverAfterSilence < 0:
		return fmt.Errorf("takeoverAfterSilence is %s; use more than 0s, or omit it for never",
			time.Duration(s.TakeoverAfterSilence))
	default:
		return nil
	}
}

func (s NodeSettings) checkNumbers() error {
	if s.VirtualRouterID < MinRouterID || s.VirtualRouterID > MaxRouterID {
		return fmt.Errorf("virtualRouterID is %d; use %d to %d", s.VirtualRouterID, MinRouterID, MaxRouterID)
	}
	ports := []int{s.Ports.API, s.Ports.Image, s.Ports.ImageTLS}
	for i, port := range ports {
		if port < 1 || port > 65535 || slices.Contains(ports[:i], port) {
			return fmt.Errorf("ports are %d; use three different ones from 1 to 65535", ports)
		}
	}
	return nil
}

func (s NodeSettings) checkFiles() error {
	for _, file := range []string{s.Files.Socket, s.Files.Authority, s.Files.State} {
		if !path.IsAbs(file) {
			return fmt.Errorf("file %q is not an absolute path; socket, authority and state are required", file)
		}
	}
	if s.Files.Kubeconfig != "" && !path.IsAbs(s.Files.Kubeconfig) {
		return fmt.Errorf("kubeconfig %q is not an absolute path; name that of the kubelet", s.Files.Kubeconfig)
	}
	if s.Takeover == AfterMove && s.Role == ControlPlane && (s.Files.Kubeconfig == "" || s.ArmedAnnotation.Name == "") {
		return errors.New("takeover AfterMove reads an annotation of the Node; set a kubeconfig and the annotation")
	}
	return nil
}

// Duration is a duration that is written like 200ms.
type Duration time.Duration

// MarshalText returns the text of the duration.
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText parses a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration; write it like 200ms or 1m30s", text)
	}
	*d = Duration(parsed)
	return nil
}
