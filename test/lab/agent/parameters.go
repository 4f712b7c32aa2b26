package agent

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Files of the parameters on a medium of Ironic.
const (
	commandLineFile = "grub.cfg"
	authorityFile   = "etc/ironic-python-agent/ironic.crt"
)

// Parameters are the parameters of an agent from Ironic.
type Parameters struct {
	// API is the base URL of Ironic. Empty for an inspection only.
	API string
	// Inspection is the URL for the inventory. Empty without an inspection.
	Inspection string
	// Token is in all heartbeats and commands. If it is empty, the first lookup returns it.
	Token string
	// Insecure accepts any certificate of the API.
	Insecure bool
	// Authority has signed the certificate of the API, in PEM format. Empty means the authorities of the system.
	Authority []byte
}

var commandLine = regexp.MustCompile(`(?m)^\s*linux\S*\s+\S+\s+(.*?)(?:\s+--\s*)?$`)

// ReadParameters parses the files of a medium, by their paths.
func ReadParameters(medium map[string][]byte) (Parameters, error) {
	var found [][]byte
	// The folder is named after the distribution of the boot loader.
	for name, content := range medium {
		if path.Base(name) == commandLineFile {
			found = commandLine.FindSubmatch(content)
		}
	}
	if found == nil {
		return Parameters{}, fmt.Errorf("the medium has no kernel command line in EFI/*/%s: Ironic did not build it",
			commandLineFile)
	}
	values := map[string]string{}
	for word := range strings.FieldsSeq(string(found[1])) {
		name, value, _ := strings.Cut(word, "=")
		values[name] = value
	}
	parameters := Parameters{
		API: strings.TrimSuffix(values["ipa-api-url"], "/"), Inspection: values["ipa-inspection-callback-url"],
		Token: values["ipa-agent-token"], Insecure: values["ipa-insecure"] == "1", Authority: medium[authorityFile],
	}
	if parameters.API == "" && parameters.Inspection == "" {
		return Parameters{}, errors.New("the kernel command line has neither ipa-api-url nor ipa-inspection-callback-url: " +
			"one of them is required")
	}
	return parameters, nil
}
