package env

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig file for Config or a configuration of User, and returns its path. The file
// contains all credentials, so that it can be copied.
func (s *Server) WriteKubeconfig(name string, config *rest.Config) (string, error) {
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: config.Host, CertificateAuthorityData: config.CAData},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			name: {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken},
		},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return "", fmt.Errorf("encoding the kubeconfig of %s: %w", name, err)
	}
	return s.group.WriteFile(name+".kubeconfig", content)
}
