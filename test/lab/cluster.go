package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// Cluster is a Kubernetes cluster of a lab, accessed from outside as administrator.
type Cluster struct {
	// Name of the management machine, or of the Cluster object.
	Name string

	// Kubeconfig is a file that works outside of the lab while the lab runs.
	Kubeconfig string

	// Config has no client-side rate limit.
	Config *rest.Config

	// Client reads and writes without a cache, with all kinds of build.Scheme.
	Client client.Client

	kubectl    string
	clusterctl components.Clusterctl
	proxy      *network.Proxy
}

// connect returns a Cluster from a kubeconfig that works inside the lab. It replaces the address of the API server by a
// port of the loopback interface. The certificate is still verified for the inner address.
func (l *Lab) connect(ctx context.Context, name string, inside []byte) (*Cluster, error) {
	config, err := clientcmd.Load(inside)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", name, err)
	}
	used, found := config.Contexts[config.CurrentContext]
	if !found || config.Clusters[used.Cluster] == nil {
		return nil, fmt.Errorf("the kubeconfig of cluster %s names no cluster in its context %q", name, config.CurrentContext)
	}
	server := config.Clusters[used.Cluster]
	address, err := url.Parse(server.Server)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", name, err)
	}
	// The proxy lives as long as the lab.
	proxy, err := l.network.Proxy(context.WithoutCancel(ctx), "127.0.0.1:0", address.Host)
	if err != nil {
		return nil, fmt.Errorf("opening a proxy to cluster %s: %w", name, err)
	}
	server.TLSServerName = address.Hostname()
	server.Server = "https://" + proxy.Address()
	cluster := &Cluster{Name: name, Kubeconfig: filepath.Join(l.folder, name+".kubeconfig"), proxy: proxy}
	if err := clientcmd.WriteToFile(*config, cluster.Kubeconfig); err != nil {
		proxy.Close()
		return nil, fmt.Errorf("writing the kubeconfig of cluster %s: %w", name, err)
	}
	if err := l.complete(ctx, cluster); err != nil {
		proxy.Close()
		return nil, fmt.Errorf("creating a client for cluster %s: %w", name, err)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.clusters[name] = cluster
	return cluster, nil
}

func (l *Lab) complete(ctx context.Context, cluster *Cluster) error {
	cluster.kubectl = l.artefacts.Kubectl
	var err error
	cluster.clusterctl, err = l.source().Clusterctl(ctx, l.clusterctlConfig, cluster.Kubeconfig)
	if err != nil {
		return err
	}
	cluster.clusterctl.Variables = l.templateVariables()
	if cluster.Config, err = clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig); err != nil {
		return err
	}
	cluster.Config.QPS = -1
	cluster.Client, err = client.New(cluster.Config, client.Options{Scheme: build.Scheme()})
	return err
}

// Kubectl runs a kubectl of the version of the cluster and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlWithInput(ctx, nil, args...)
}

// KubectlWithInput is Kubectl with standard input, for apply -f -.
func (c *Cluster) KubectlWithInput(ctx context.Context, input io.Reader, args ...string) (string, error) {
	command := exec.CommandContext(ctx, c.kubectl, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = input, &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running kubectl %v on cluster %s: %w\n%s", args, c.Name, err, stderr.String())
	}
	return stdout.String(), nil
}

// Clusterctl runs clusterctl on the cluster, with a local repository and the variables of the template of the lab.
func (c *Cluster) Clusterctl() components.Clusterctl { return c.clusterctl }

// KubectlPath returns the path of a kubectl of the version of the cluster.
func (c *Cluster) KubectlPath() string { return c.kubectl }
