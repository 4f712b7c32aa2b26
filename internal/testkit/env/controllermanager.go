package env

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
)

// StartControllerManager starts kube-controller-manager with the controllers that Cluster API requires: garbage
// collection, deletion of namespaces, service accounts and their tokens, and aggregated cluster roles.
//
// The garbage collector discovers new kinds every 30 seconds. Start it after the CRDs are installed to avoid this
// delay.
func (s *Server) StartControllerManager(ctx context.Context) error {
	path, err := s.programs.optional(ctx, "kube-controller-manager")
	if err != nil {
		return err
	}
	certificates, err := s.serverPair("kube-controller-manager")
	if err != nil {
		return err
	}
	address, err := s.group.Address()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	child, err := s.group.Start(process.Program{Name: "kube-controller-manager", Path: path, Args: []string{
		"--kubeconfig=" + s.Kubeconfig,
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--tls-cert-file=" + filepath.Join(certificates, certificateFile),
		"--tls-private-key-file=" + filepath.Join(certificates, keyFile),
		"--service-account-private-key-file=" + s.signingKey,
		"--root-ca-file=" + filepath.Join(s.group.Folder(), authorityFile),
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--controllers=" + strings.Join([]string{
			"garbage-collector-controller",
			"namespace-controller",
			"serviceaccount-controller",
			"serviceaccount-token-controller",
			"clusterrole-aggregation-controller",
		}, ","),
	}})
	if err != nil {
		return err
	}
	config := rest.CopyConfig(s.Config)
	config.Host = "https://" + address
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return child.WaitReady(ctx, func(ctx context.Context) error {
		if _, err := clients.Discovery().RESTClient().Get().AbsPath("/healthz").DoRaw(ctx); err != nil {
			return fmt.Errorf("probing its health: %w", err)
		}
		return nil
	})
}
