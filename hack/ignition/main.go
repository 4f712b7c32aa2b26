// Command ignition is Ignition for the tests: it validates configs, and renders them as the kubeadm bootstrap provider
// does. It has its own module because the product requires neither.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	coreos "github.com/coreos/ignition/v2/config"
	"github.com/coreos/ignition/v2/config/util"
	"github.com/flatcar/ignition/config/v2_3"
	"github.com/flatcar/ignition/config/v2_4"
	"github.com/vincent-petithory/dataurl"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/ignition"
)

// file is a file as Ignition would write it.
type file struct {
	Path      string `json:"path"`
	Mode      int    `json:"mode"`
	Content   []byte `json:"content"`
	Overwrite bool   `json:"overwrite"`
}

// verdict is the result of Ignition for a valid config.
type verdict struct {
	Files []file `json:"files"`
	// Warnings have no locations. The validator of version 2 warns about any config that was rendered from Go types.
	Warnings []string `json:"warnings"`
}

func main() {
	if len(os.Args) != 2 {
		fail("want one argument: validate, render-init or render-join")
	}
	switch os.Args[1] {
	case "validate":
		validate()
	case "render-init":
		render(true)
	case "render-join":
		render(false)
	default:
		fail("unknown command " + os.Args[1])
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(1)
}

// validate reads a config and prints the verdict.
func validate() {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err.Error())
	}
	version, problems, err := util.GetConfigVersion(data)
	if err != nil {
		fail(fmt.Sprint(err, problems))
	}
	said := verdict{Files: []file{}, Warnings: []string{}}
	if version.Major == 2 {
		said.validate2(data, version.Minor)
	} else {
		said.validate3(data)
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		fail(err.Error())
	}
}

func (v *verdict) validate2(data []byte, minor int64) {
	config, report, err := v2_4.Parse(data)
	if minor < 4 {
		old, oldReport, oldError := v2_3.Parse(data)
		config, report, err = v2_4.Translate(old), oldReport, oldError
	}
	if err != nil || report.IsFatal() {
		fail(fmt.Sprint(err, report.String()))
	}
	for _, entry := range report.Entries {
		v.Warnings = append(v.Warnings, entry.Message)
	}
	for _, found := range config.Storage.Files {
		mode := 0
		if found.Mode != nil {
			mode = *found.Mode
		}
		overwrite := found.Overwrite == nil || *found.Overwrite
		v.Files = append(v.Files, file{found.Path, mode, decode(found.Contents.Source), overwrite})
	}
}

func (v *verdict) validate3(data []byte) {
	config, report, err := coreos.Parse(data)
	if err != nil || report.IsFatal() {
		fail(fmt.Sprint(err, report.String()))
	}
	for _, entry := range report.Entries {
		v.Warnings = append(v.Warnings, entry.Message)
	}
	for _, found := range config.Storage.Files {
		overwrite := found.Overwrite != nil && *found.Overwrite
		v.Files = append(v.Files, file{found.Path, *found.Mode, decode(*found.Contents.Source), overwrite})
	}
}

func decode(source string) []byte {
	url, err := dataurl.DecodeString(source)
	if err != nil {
		fail(err.Error())
	}
	return url.Data
}

func render(first bool) {
	base := cloudinit.BaseUserData{
		PreKubeadmCommands: []string{"hostnamectl set-hostname \"$(cat /etc/name)\"", "sed -i s/@NAME@/$(hostname)/ /etc/kubeadm.yml"},
		Users:              []bootstrapv1.User{{Name: "core", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA core@example.com"}}},
		KubeadmCommand:     "kubeadm init --config /etc/kubeadm.yml ",
		AdditionalFiles: []bootstrapv1.File{
			{Path: "/etc/motd", Owner: "root:root", Permissions: "0644", Content: "a < b & c {{ not jinja }}\n"},
			{Path: "/etc/binary", Permissions: "0600", Encoding: bootstrapv1.Base64, Content: "AAECAw=="},
		},
	}
	var data []byte
	var warnings string
	var err error
	if first {
		data, warnings, err = ignition.NewInitControlPlane(&ignition.ControlPlaneInput{
			ControlPlaneInput: &cloudinit.ControlPlaneInput{
				BaseUserData: base, ClusterConfiguration: "kind: ClusterConfiguration", InitConfiguration: "kind: InitConfiguration"},
			Ignition: &bootstrapv1.IgnitionSpec{ContainerLinuxConfig: bootstrapv1.ContainerLinuxConfig{
				AdditionalConfig: "storage:\n  files:\n  - path: /etc/extra\n    mode: 0600\n    contents: {inline: extra}\n"}},
		})
	} else {
		data, warnings, err = ignition.NewJoinControlPlane(&ignition.ControlPlaneJoinInput{
			ControlPlaneJoinInput: &cloudinit.ControlPlaneJoinInput{BaseUserData: base, JoinConfiguration: "kind: JoinConfiguration"},
		})
	}
	if err != nil {
		fail(fmt.Sprint(err, warnings))
	}
	os.Stdout.Write(data)
}
