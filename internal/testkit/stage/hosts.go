package stage

import (
	"context"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/fakeironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/hostsim"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/operator"
)

const (
	// operatorVariable names the program that operates hosts in the stories of controllers: the simulator by default, and
	// the Baremetal Operator (BMO) if the value is operatedByBMO, as in the nightly tier.
	operatorVariable = "HOST_OPERATOR"
	operatedByBMO    = "bmo"

	// operatedLimit is the time limit of each wait with BMO, which polls Ironic every 10 seconds.
	operatedLimit = 2 * time.Minute

	// nowhere is a namespace that does not exist.
	nowhere = "nowhere"
)

// RunBMO runs BMO with an Ironic in memory until the end of the suite. A BMC accepts the password of
// build.ControllerSecret. BMO polls Ironic every 10 seconds.
func RunBMO(ctx context.Context, server *env.Server, flags ...string) (*operator.Operator, *fakeironic.Server) {
	GinkgoHelper()
	ironic := fakeironic.New()
	ironic.BoardPassword = build.ControllerPassword
	DeferCleanup(ironic.Close)
	bmo, err := operator.Install(ctx, server, operator.Settings{Ironic: ironic.Access(), Flags: flags}, nil)
	Expect(err).NotTo(HaveOccurred())
	return bmo, ironic
}

// HostOperator operates the hosts of one namespace at a time.
type HostOperator struct {
	server *env.Server

	// bmo is nil if the simulator operates hosts. ironic is its Ironic.
	bmo    *operator.Operator
	ironic *fakeironic.Server
}

// NewHostOperator returns the operator that the variable names. It operates no host yet.
func NewHostOperator(ctx context.Context, server *env.Server) *HostOperator {
	GinkgoHelper()
	if os.Getenv(operatorVariable) != operatedByBMO {
		return &HostOperator{server: server}
	}
	SetDefaultEventuallyTimeout(operatedLimit)
	bmo, ironic := RunBMO(ctx, server, onlyIn(nowhere)...)
	return &HostOperator{server: server, bmo: bmo, ironic: ironic}
}

// Operate operates the hosts of a namespace until the end of the spec.
func (o *HostOperator) Operate(ctx context.Context, namespace string) {
	GinkgoHelper()
	if o.bmo == nil {
		o.simulate(namespace)
		return
	}
	// The webhooks of BMO answer for all namespaces. The hosts of all stories have the same names and MAC addresses.
	limitTo := func(ctx context.Context, namespace string) {
		GinkgoHelper()
		o.bmo.Kill()
		o.ironic.Empty()
		o.bmo.Flags = onlyIn(namespace)
		Expect(o.bmo.Start(ctx)).To(Succeed())
	}
	limitTo(ctx, namespace)
	DeferCleanup(limitTo, nowhere)
}

func (o *HostOperator) simulate(namespace string) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- hostsim.Run(ctx, o.server.Config, hostsim.Options{Namespace: namespace}) }()
	DeferCleanup(func() {
		stop()
		Expect(<-ended).To(Succeed())
	})
}

func onlyIn(namespace string) []string { return []string{"-namespace=" + namespace} }
