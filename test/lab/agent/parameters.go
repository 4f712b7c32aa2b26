package agent

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Where Ironic puts the parameters on a medium.
const (
	commandLineFile = "grub.cfg"
	authorityFile   = "etc/ironic-python-agent/ironic.crt"
)

// Parameters are what Ironic tells an agent before it boots.
type Parameters struct {
	// API is the base URL of Ironic. Empty where only an inspection is wanted.
	API string
	// Inspection is the URL that takes the inventory. Empty where no inspection is wanted.
	Inspection string
	// Token is in all heartbeats and commands. Empty where the first lookup tells it.
	Token string
	// Insecure takes any certificate of the API.
	Insecure bool
	// Authority is what the certificate of the API is signed by, PEM. Empty means the authorities of the system.
	Authority []byte
}

var commandLine = regexp.MustCompile(`(?m)^\s*linux\S*\s+\S+\s+(.*?)(?:\s+--\s*)?$`)

// ReadParameters reads what is on a medium, given as its files by their paths.
func ReadParameters(medium map[string][]byte) (Parameters, error) {
	var found [][]byte
	// The folder is that of the distribution whose boot loader it is.
	for name, content := range medium {
		if path.Base(name) == commandLineFile {
			found = commandLine.FindSubmatch(content)
		}
	}
	if found == nil {
		return Parameters{}, fmt.Errorf("the medium has no kernel command line in EFI/*/%s: it is none that Ironic built",
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
			"there is nothing to do")
	}
	return parameters, nil
}
