package rbac_test

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/installation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// patience is the time limit of each wait.
	patience = 10 * time.Minute

	pollEvery = 50 * time.Millisecond
)

func TestRBAC(t *testing.T) { specs.Run(t, "Rights of the manager") }

// world is a management cluster with a manager that has the installed RBAC rules.
type world struct {
	server    *env.Server
	role      *rbacv1.ClusterRole
	namespace string
	manager   *installation.Manager
}

var _ = Describe("The manager", Ordered, func() {
	i := &world{}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		i.server = stage.Start(ctx, env.Options{
			Definitions: []components.Group{
				components.Provider, components.ClusterAPI, components.BaremetalOperator, components.AddressManager,
			},
			Webhooks: true,
			Audit:    true,
			// Some clusters let only users change owners who may delete the dependent.
			APIServerFlags: []string{"enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
		})
		i.namespace = stage.Namespace(ctx, i.server)
		stage.RunBMO(ctx, i.server)
		stage.TriggerOften(i.server, i.namespace, stage.PollInterval)
		i.role = installation.Role(ctx, i.server, "role.yaml")
		config := installation.Config(ctx, i.server, i.role)
		installation.Follow(ctx, i.server, "installation.md", "Where owner references are guarded")
		i.manager = installation.Run(ctx, i.server, config)
		DeferCleanup(i.manager.Stop)
	})

	describeLife(i)
	describeUpgrade(i)
	describeOwners(i)

	It("releases its lease when it ends, so that the next manager does not wait for it", func(ctx context.Context) {
		held := func() string {
			var lease coordinationv1.Lease
			key := client.ObjectKey{Namespace: installation.Namespace, Name: "controller-leader-election-capm3"}
			Expect(i.server.Client.Get(ctx, key, &lease)).To(Succeed())
			return ptr.Deref(lease.Spec.HolderIdentity, "")
		}
		Expect(held()).NotTo(BeEmpty())
		i.manager.Stop()
		Expect(held()).To(BeEmpty())
	})

	It("sends no request that is refused", func() {
		requests := i.requests()
		Expect(requests).NotTo(BeEmpty())
		Expect(refused(requests)).To(BeEmpty())
	})

	It("has used each of its permissions", func() {
		// Some runs use the permissions with a reason.
		left := slices.DeleteFunc(unused(rights(i.role.Rules), i.requests()), func(this string) bool {
			return explained()[this] != ""
		})
		Expect(left).To(BeEmpty(),
			"remove the permission, use it in a story, or add its reason")
	})
})

// requests returns the requests of the manager.
func (i *world) requests() []env.Request {
	GinkgoHelper()
	all, err := i.server.Requests()
	Expect(err).NotTo(HaveOccurred())
	var own []env.Request
	for _, request := range all {
		if request.User == installation.User {
			own = append(own, request)
		}
	}
	return own
}
