package ironic

import (
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
)

// Microversion is the version of the API for clients of the lab. Ironic 29 supports it.
const Microversion = "1.95"

// NewClient returns a client of an Ironic with credentials. A nil dialer means that of this process.
func NewClient(endpoint string, credentials Credentials, dial Dialer) (*gophercloud.ServiceClient, error) {
	client, err := httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
		IronicEndpoint: endpoint, IronicUser: credentials.Username, IronicUserPassword: credentials.Password,
	})
	if err != nil {
		return nil, fmt.Errorf("creating a client of Ironic at %s: %w", endpoint, err)
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
		// Ironic requires these files, which machines of a lab do not read.
		KernelFile: []byte("kernel\n"), RamdiskFile: []byte("ramdisk\n"), systemPartition: []byte("partition\n"),
		usernameFile: []byte(credentials.Username),
		passwordFile: []byte(credentials.Password),
	}, nil
}
