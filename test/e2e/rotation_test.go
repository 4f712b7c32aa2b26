package e2e_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// rotateCredentials changes the credentials of the endpoint: first in the Secret, then on the nodes, and of BMO as
// soon as a new node has the VIP. It returns the previous ones, and does not wait for the other nodes.
func (e *endpoint) rotateCredentials(ctx context.Context) ironicapi.Endpoint {
	GinkgoHelper()
	before := bed.lab.Ironic()
	after := before
	after.Username, after.Password = "rotated", rand.Text()
	e.storeCredentials(ctx, after)
	e.rollOut(ctx)
	e.untilAnswered(ctx, "", after, http.StatusOK)
	bed.lab.UseIronic(after)
	e.setBMOCredentials(ctx, after)
	return before
}

// storeCredentials writes credentials into the Secret that the Metal3Cluster names, and into that of the management
// cluster, whose Ironic does not run. In the lab both have the same name.
func (e *endpoint) storeCredentials(ctx context.Context, settings ironicapi.Endpoint) {
	GinkgoHelper()
	var infra infrav1.Metal3Cluster
	Expect(e.Get(ctx, named(endpointCluster), &infra)).To(Succeed())
	hash, err := secrets.HashPassword([]byte(settings.Password))
	Expect(err).NotTo(HaveOccurred())
	for namespace, where := range map[string]client.Client{
		lab.Namespace: e.Client, lab.IronicNamespace: bed.lab.Management().Client,
	} {
		key := client.ObjectKey{Namespace: namespace, Name: infra.Spec.Ironic.CredentialsRef.Name}
		stage.Change(ctx, where, key, &corev1.Secret{}, func(secret *corev1.Secret) {
			secret.Data = map[string][]byte{
				secrets.UsernameKey: []byte(settings.Username), secrets.PasswordKey: []byte(settings.Password),
				secrets.HtpasswdKey: fmt.Appendf(nil, "%s:%s\n", settings.Username, hash),
			}
		})
	}
}

// setBMOCredentials gives BMO other credentials for Ironic. BMO reads them when it starts.
func (e *endpoint) setBMOCredentials(ctx context.Context, settings ironicapi.Endpoint) {
	GinkgoHelper()
	written := lab.OperatorSecret(settings)
	stage.Change(ctx, e.Client, client.ObjectKeyFromObject(written), &corev1.Secret{}, func(secret *corev1.Secret) {
		secret.Data = written.Data
	})
	for _, command := range []string{"restart", "status"} {
		_, err := e.home.Kubectl(ctx, "rollout", command, "--namespace="+lab.OperatorNamespace,
			"deployment/"+lab.OperatorDeployment)
		Expect(err).NotTo(HaveOccurred())
	}
}

// untilAnswered waits until a client with these credentials gets a status from Ironic on a machine, or at the VIP if
// the machine is empty.
func (e *endpoint) untilAnswered(ctx context.Context, machine string, as ironicapi.Endpoint, status int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(readDrivers(ctx, machine, as)).To(Equal(status), "Ironic on %s", machine)
	}, patiently()...).Should(Succeed())
}

// readDrivers requests the drivers of Ironic on a machine, or at the VIP if the machine is empty, and returns the HTTP
// status.
func readDrivers(ctx context.Context, machine string, as ironicapi.Endpoint) (int, error) {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(as.Authority) {
		return 0, errors.New("the authority of Ironic is not a certificate")
	}
	dial := bed.lab.Network().Dial
	if machine != "" {
		own := network.Address4(bed.lab.Machine(machine).Port().Number).String()
		dial = func(ctx context.Context, kind, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return bed.lab.Network().Dial(ctx, kind, net.JoinHostPort(own, port))
		}
	}
	// Each request has a new client without connections.
	httpClient := &http.Client{Timeout: calm, Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, as.URL+"drivers", http.NoBody)
	if err != nil {
		return 0, err
	}
	request.SetBasicAuth(as.Username, as.Password)
	response, err := httpClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// demoteHolder makes a user demote the VIP holder. Its Ironic ends with the VIP, and another one starts in a new
// container.
func (e *endpoint) demoteHolder(ctx context.Context) {
	GinkgoHelper()
	lost := e.holder(ctx)
	file := path.Join(ironic.NodeDirectory, "armed")
	_, err := bed.lab.Machine(lost).Run(ctx, "sh", "-c", "echo 0 > "+file)
	Expect(err).NotTo(HaveOccurred())
	e.untilMoved(ctx, lost)
	_, err = bed.lab.Machine(lost).Run(ctx, "rm", file)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func(g Gomega) {
		var pod corev1.Pod
		key := client.ObjectKey{Namespace: ironic.Namespace, Name: ironic.IronicPod + "-" + lost}
		g.Expect(e.workload.Client.Get(ctx, key, &pod)).To(Succeed())
		g.Expect(pod.Status.ContainerStatuses).To(ContainElement(And(HaveField("Name", "ironic"), HaveField("Ready", true),
			HaveField("LastTerminationState.Terminated", HaveValue(And(HaveField("ExitCode", BeEquivalentTo(1)),
				HaveField("Message", ContainSubstring("the VIP was here and has left"))))))))
	}, patiently()...).Should(Succeed(), "Ironic on %s", lost)
	e.settle(ctx)
	Expect(e.holder(ctx)).NotTo(Equal(lost))
}

// standBy sets the standby mode of Ironic. Nodes get it when they are created.
func (e *endpoint) standBy(ctx context.Context, how infrav1.StandbyMode) {
	GinkgoHelper()
	stage.Change(ctx, e.Client, named(endpointCluster), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
		infra.Spec.Ironic.Standby = how
	})
}

// untilOnlyHolderServes waits until Ironic runs only on the VIP holder: on other nodes its web server has no backend.
func (e *endpoint) untilOnlyHolderServes(ctx context.Context) {
	GinkgoHelper()
	for _, node := range e.nodes(ctx) {
		Eventually(func(g Gomega) {
			want := http.StatusServiceUnavailable
			if node == e.seen.Held.Last() {
				want = http.StatusOK
			}
			g.Expect(readDrivers(ctx, node, bed.lab.Ironic())).To(Equal(want), node)
		}, patiently()...).Should(Succeed())
	}
}
