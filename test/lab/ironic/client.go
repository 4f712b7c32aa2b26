package ironic

import (
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
)

// Microversion is the version of the API that clients of the lab ask for. Ironic 29 offers it.
const Microversion = "1.95"

// NewClient is a client of an Ironic with these credentials. A nil dialer is that of this process.
func NewClient(endpoint string, credentials Credentials, dial Dialer) (*gophercloud.ServiceClient, error) {
	client, err := httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
		IronicEndpoint: endpoint, IronicUser: credentials.Username, IronicUserPassword: credentials.Password,
	})
	if err != nil {
		return nil, fmt.Errorf("making a client of Ironic at %s: %w", endpoint, err)
	}
	transport, err := credentials.HTTPClient(dial)
	if err != nil {
		return nil, err
	}
	client.HTTPClient = *transport
	client.Microversion = Microversion
	return client, nil
}

// files are the files of ConfigDir by their names.
func files(config Config, credentials Credentials) (map[string][]byte, error) {
	content, err := Render(config)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		configFile:      content,
		certificateFile: credentials.Certificate,
		keyFile:         credentials.Key,
		authorityFile:   credentials.CA,
		// Ironic refuses files that are missing, and machines of a lab look at none of these.
		KernelFile: []byte("kernel\n"), RamdiskFile: []byte("ramdisk\n"), systemPartition: []byte("partition\n"),
		usernameFile: []byte(credentials.Username),
		passwordFile: []byte(credentials.Password),
	}, nil
}
