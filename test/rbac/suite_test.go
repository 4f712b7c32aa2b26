package rbac_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/hostsim"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// patience is how long a story waits for something to happen. It is a limit, not an expectation.
	patience = time.Minute

	// pollEvery is how often it looks.
	pollEvery = 50 * time.Millisecond

	// managerUser is who the manager is for the API server.
	managerUser = "system:serviceaccount:capm3-system:capm3-manager"
)

func TestRBAC(t *testing.T) { specs.Run(t, "Rights of the manager") }

// installation is a management cluster on which the manager runs with the rights that it is installed with.
type installation struct {
	server    *env.Server
	role      *rbacv1.ClusterRole
	namespace string

	// metrics is the address of the metrics.
	metrics string
}

var _ = Describe("The manager", Ordered, func() {
	i := &installation{}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		i.server = stage.Start(ctx, env.Options{
			Definitions: []components.Group{components.Provider, components.ClusterAPI, components.HostOperator},
			Webhooks:    true,
			Audit:       true,
			// Some clusters let only those change owners who may delete what is owned.
			APIServerFlags: []string{"enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
		})
		i.namespace = stage.Namespace(ctx, i.server)
		i.simulateHosts()
		config := i.grant(ctx)
		i.grantOwners(ctx)
		i.run(ctx, config)
	})

	describeLife(i)
	describeUpgrade(i)
	describeOwners(i)

	It("is refused nothing", func() {
		requests := i.requests()
		Expect(requests).NotTo(BeEmpty())
		Expect(refused(requests)).To(BeEmpty())
	})

	It("has used each of its rights", func() {
		// What is argued for is used by some runs and not by others.
		left := slices.DeleteFunc(unused(rights(i.role.Rules), i.requests()), func(this string) bool {
			return argued()[this] != ""
		})
		Expect(left).To(BeEmpty(),
			"take a right away where it is asked for, add what uses it to the stories, or argue for it")
	})
})

// grant gives the user of the manager the role that is installed, and nothing else.
func (i *installation) grant(ctx context.Context) *rest.Config {
	GinkgoHelper()
	i.role = i.install(ctx, "role.yaml")
	i.bind(ctx, i.role.Name, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: managerUser})
	config, err := i.server.User(managerUser)
	Expect(err).NotTo(HaveOccurred())
	return config
}

// install creates a ClusterRole of the release.
func (i *installation) install(ctx context.Context, file string) *rbacv1.ClusterRole {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(i.server.Root(), "config", "rbac", file))
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict(content, role)).To(Succeed())
	Expect(i.server.Client.Create(ctx, role)).To(Succeed())
	return role
}

func (i *installation) bind(ctx context.Context, role string, subject rbacv1.Subject) {
	GinkgoHelper()
	Expect(i.server.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role + "-" + subject.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	})).To(Succeed())
}

// grantOwners runs the commands that the manual gives to those whose API server guards owner references.
func (i *installation) grantOwners(ctx context.Context) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(i.server.Root(), "docs", "installation.md"))
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(content), "\n## Where owner references are guarded\n")
	Expect(found).To(BeTrue())
	section, _, _ = strings.Cut(section, "\n## ")
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	commands := strings.Split(strings.TrimSpace(strings.ReplaceAll(block, "\\\n", "")), "\n")
	Expect(commands).To(HaveLen(2))
	for _, command := range commands {
		words := strings.Fields(command)
		Expect(words[0]).To(Equal("kubectl"))
		_, err := i.server.Kubectl(ctx, words[1:]...)
		Expect(err).NotTo(HaveOccurred())
	}
}

// run runs the manager as main does, but without leader election, which has a role of its own.
func (i *installation) run(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	health, err := i.server.Group().Address()
	Expect(err).NotTo(HaveOccurred())
	i.metrics, err = i.server.Group().Address()
	Expect(err).NotTo(HaveOccurred())
	settings := app.NewFlags(func(string) string { return "" })
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	settings.Add(set)
	Expect(set.Parse([]string{
		"--health-addr=" + health,
		"--diagnostics-address=" + i.metrics,
		fmt.Sprintf("--webhook-port=%d", i.server.Webhook.Port),
		"--webhook-cert-dir=" + i.server.Webhook.CertDir,
	})).To(Succeed())

	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(running, config, settings) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(Not(HaveOccurred())))
	})
	Eventually(func(g Gomega) {
		g.Expect(ended).NotTo(Receive(), "the manager has ended")
		g.Expect(status(ctx, http.DefaultClient, "http://"+health+"/readyz", "")).To(Equal(http.StatusOK))
	}).Should(Succeed())
}

// simulateHosts plays the host operator until the last spec.
func (i *installation) simulateHosts() {
	GinkgoHelper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- hostsim.Run(ctx, i.server.Config, hostsim.Options{Namespace: i.namespace}) }()
	DeferCleanup(func() {
		stop()
		Expect(<-ended).To(Succeed())
	})
}

// requests are those of the manager.
func (i *installation) requests() []env.Request {
	GinkgoHelper()
	all, err := i.server.Requests()
	Expect(err).NotTo(HaveOccurred())
	var own []env.Request
	for _, request := range all {
		if request.User == managerUser {
			own = append(own, request)
		}
	}
	return own
}

// status asks for a page, with a token if there is one, and returns the code of the answer. Zero means none.
func status(ctx context.Context, c *http.Client, address, token string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.Do(request)
	if err != nil {
		return 0
	}
	// What the page says does not matter.
	_ = response.Body.Close()
	return response.StatusCode
}
