package workload

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EmbeddedKubeconfigs reads kubeconfigs for the ClusterCache. Its Get returns an error for the Secret of a kubeconfig
// that names a file. Owners of workload clusters write these Secrets, and client-go would send the file of the manager,
// such as the token of its ServiceAccount, to the server of the kubeconfig.
type EmbeddedKubeconfigs struct {
	client.Reader
}

// Get reads an object. It returns an error for a kubeconfig that names a file.
func (e EmbeddedKubeconfigs) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if err := e.Reader.Get(ctx, key, object, options...); err != nil {
		return err
	}
	found, is := object.(*corev1.Secret)
	if !is || !strings.HasSuffix(key.Name, "-"+string(secret.Kubeconfig)) {
		return nil
	}
	config, err := clientcmd.Load(found.Data[secret.KubeconfigDataName])
	if err != nil {
		// The ClusterCache returns the same error.
		return nil
	}
	if err := checkEmbedded(config); err != nil {
		return fmt.Errorf("reading Secret %s: key %s %w", key, secret.KubeconfigDataName, err)
	}
	return nil
}

// checkEmbedded returns an error, without the path, if any user or cluster of a kubeconfig names a file.
func checkEmbedded(config *clientcmdapi.Config) error {
	var token, certificate, key, authority bool
	for _, user := range config.AuthInfos {
		token = token || user.TokenFile != ""
		certificate = certificate || user.ClientCertificate != ""
		key = key || user.ClientKey != ""
	}
	for _, cluster := range config.Clusters {
		authority = authority || cluster.CertificateAuthority != ""
	}
	for _, field := range []struct {
		isSet            bool
		name, embedsInto string
	}{
		{token, "tokenFile", "token"},
		{certificate, "client-certificate", "client-certificate-data"},
		{key, "client-key", "client-key-data"},
		{authority, "certificate-authority", "certificate-authority-data"},
	} {
		if field.isSet {
			return fmt.Errorf("has the path of a file in %s, which the manager does not read; embed the content in %s",
				field.name, field.embedsInto)
		}
	}
	return nil
}
