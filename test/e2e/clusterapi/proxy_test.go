package clusterapi_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// proxy connects the framework to a cluster of the lab. The addresses of API servers exist only inside the lab, so
// the proxy uses a port that the lab forwards.
type proxy struct {
	framework.ClusterProxy

	cluster *lab.Cluster
}

func newProxy(cluster *lab.Cluster) proxy {
	scheme := build.Scheme()
	framework.TryAddDefaultSchemes(scheme)
	return proxy{ClusterProxy: framework.NewClusterProxy(cluster.Name, cluster.Kubeconfig, scheme), cluster: cluster}
}

// GetWorkloadCluster implements framework.ClusterProxy. It ignores options, because the lab collects the logs of
// machines.
func (p proxy) GetWorkloadCluster(ctx context.Context, namespace, name string, _ ...framework.Option) framework.ClusterProxy {
	GinkgoHelper()
	var found *lab.Cluster
	Eventually(func() (err error) {
		found, err = bed.lab.WorkloadOf(ctx, p.cluster, client.ObjectKey{Namespace: namespace, Name: name})
		return err
	}, bed.config.GetIntervals("", "wait-cluster")...).Should(Succeed())
	return newProxy(found)
}
