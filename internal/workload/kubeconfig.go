package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoKubeconfig is the error while there is no connection to a workload cluster because its kubeconfig is missing or
// invalid.
var ErrNoKubeconfig = errors.New("the manager has no valid kubeconfig of the workload cluster")

// whyUnreachable returns why the ClusterCache has no connection to a cluster. The ClusterCache has tried to connect.
//
//	kubeconfig                             error
//	missing, or invalid                    ErrNoKubeconfig
//	cannot be read                         the error of the read
//	repaired, no attempt to connect since  ErrNotTried: the last attempt failed for the kubeconfig
//	valid                                  ErrUnreachable
func (c *ControlPlanes) whyUnreachable(ctx context.Context, cluster types.NamespacedName) error {
	tried := c.clusters.GetHealthCheckingState(ctx, cluster).LastProbeTime
	err := checkKubeconfig(ctx, c.kubeconfigs, cluster, tried)
	c.kubeconfigMutex.Lock()
	defer c.kubeconfigMutex.Unlock()
	repaired, wasInvalid := c.repaired[cluster]
	switch {
	case errors.Is(err, ErrNoKubeconfig):
		if c.repaired == nil {
			c.repaired = map[types.NamespacedName]time.Time{}
		}
		c.repaired[cluster] = time.Time{}
		return err
	case err != nil:
		return err
	case wasInvalid && repaired.IsZero():
		c.repaired[cluster] = tried
		return ErrNotTried
	case wasInvalid && repaired.Equal(tried):
		return ErrNotTried
	}
	delete(c.repaired, cluster)
	return ErrUnreachable
}

// checkKubeconfig returns ErrNoKubeconfig if the ClusterCache could not use the kubeconfig of a cluster at a time.
func checkKubeconfig(ctx context.Context, from client.Reader, cluster types.NamespacedName, at time.Time) error {
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	found := &corev1.Secret{}
	switch err := from.Get(ctx, key, found); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w. Restore Secret %s with label %s=%s and key %s", ErrNoKubeconfig, err, key.Name,
			clusterv1.ClusterNameLabel, cluster.Name, secret.KubeconfigDataName)
	case err != nil:
		return fmt.Errorf("reading Secret %s: %w", key, err)
	}
	data, has := found.Data[secret.KubeconfigDataName]
	if !has {
		return fmt.Errorf("%w: Secret %s has no key %s. Add the key, with the kubeconfig of the workload cluster",
			ErrNoKubeconfig, key.Name, secret.KubeconfigDataName)
	}
	if err := validate(data, at); err != nil {
		return fmt.Errorf("%w: key %s of Secret %s %w. Replace it with a valid kubeconfig of the workload cluster",
			ErrNoKubeconfig, secret.KubeconfigDataName, key.Name, err)
	}
	return nil
}

// validate returns an error, without any credential, if the ClusterCache could not use a kubeconfig at a time.
func validate(kubeconfig []byte, at time.Time) error {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		// The error may quote the data.
		return errors.New("is not a kubeconfig")
	}
	// ClientConfig would read the files.
	if err := checkEmbedded(config); err != nil {
		return err
	}
	if config.Contexts[config.CurrentContext] == nil {
		return errors.New("has no current context")
	}
	access, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("is invalid: %w", err)
	}
	if access.ExecProvider != nil || access.AuthProvider != nil {
		return errors.New("requires a credential plugin, which the manager does not run")
	}
	if _, err := rest.TLSConfigFor(access); err != nil {
		return fmt.Errorf("has an invalid certificate or key: %w", err)
	}
	// The API server refuses an expired certificate, and the ClusterCache does not say so.
	if chain, err := cert.ParseCertsPEM(access.CertData); err == nil && chain[0].NotAfter.Before(at) {
		return fmt.Errorf("has a client certificate that expired at %s", chain[0].NotAfter.Format(time.RFC3339))
	}
	return nil
}
