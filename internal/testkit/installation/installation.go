// Package installation runs the manager of this provider in the process of a test, with the RBAC rules and the leader
// election of a release.
package installation

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// Namespace is the namespace of the manager.
	Namespace = "capm3-system"

	// User is the manager for the API server.
	User = "system:serviceaccount:" + Namespace + ":capm3-manager"
)

// Role creates a ClusterRole of a release from a file in config/rbac. The role of the manager is in role.yaml.
func Role(ctx context.Context, server *env.Server, file string) *rbacv1.ClusterRole {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{}
	read(server, file, role)
	Expect(server.Client.Create(ctx, role)).To(Succeed())
	return role
}

func read(server *env.Server, file string, into any) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(server.Root(), "config", "rbac", file))
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.UnmarshalStrict(content, into)).To(Succeed())
}

// Bind binds a role to a subject.
func Bind(ctx context.Context, server *env.Server, role string, subject rbacv1.Subject) {
	GinkgoHelper()
	Expect(server.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role + "-" + subject.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	})).To(Succeed())
}

// Config binds the role and that of the leader election to the user of the manager, and returns the configuration of
// this user.
func Config(ctx context.Context, server *env.Server, role *rbacv1.ClusterRole) *rest.Config {
	GinkgoHelper()
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: User}
	Bind(ctx, server, role.Name, user)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	Expect(client.IgnoreAlreadyExists(server.Client.Create(ctx, namespace))).To(Succeed())
	election, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	read(server, "leader_election_role.yaml", election)
	read(server, "leader_election_role_binding.yaml", binding)
	election.Namespace, binding.Namespace, binding.Subjects = Namespace, Namespace, []rbacv1.Subject{user}
	for _, object := range []client.Object{election, binding} {
		Expect(server.Client.Create(ctx, object)).To(Succeed())
	}
	config, err := server.User(User)
	Expect(err).NotTo(HaveOccurred())
	return config
}

// Follow runs the kubectl commands of the first block of shell in a section of a document.
func Follow(ctx context.Context, server *env.Server, document, section string) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(server.Root(), "docs", document))
	Expect(err).NotTo(HaveOccurred())
	_, text, found := strings.Cut(string(content), "\n## "+section+"\n")
	Expect(found).To(BeTrue(), "%s has no section %s", document, section)
	text, _, _ = strings.Cut(text, "\n## ")
	_, block, _ := strings.Cut(text, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	commands := strings.Split(strings.TrimSpace(strings.ReplaceAll(block, "\\\n", "")), "\n")
	for _, command := range commands {
		words := strings.Fields(command)
		Expect(words).NotTo(BeEmpty())
		Expect(words[0]).To(Equal("kubectl"))
		_, err := server.Kubectl(ctx, words[1:]...)
		Expect(err).NotTo(HaveOccurred())
	}
}

// Manager is the manager of an installation.
type Manager struct {
	// Metrics is the address of its metrics.
	Metrics string

	*stage.Running
}

// Run runs the manager as main does, until Stop. A process runs only one manager: names of controllers are unique.
func Run(ctx context.Context, server *env.Server, config *rest.Config) *Manager {
	GinkgoHelper()
	health, err := server.Group().Address()
	Expect(err).NotTo(HaveOccurred())
	metrics, err := server.Group().Address()
	Expect(err).NotTo(HaveOccurred())
	webhooks := server.Webhook
	if webhooks.CertDir == "" {
		webhooks, err = server.NewWebhookServer("manager")
		Expect(err).NotTo(HaveOccurred())
	}
	settings := app.NewFlags(func(name string) string { return map[string]string{"POD_NAMESPACE": Namespace}[name] })
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	settings.Add(set)
	Expect(set.Parse([]string{
		"--leader-elect",
		"--health-addr=" + health,
		"--diagnostics-address=" + metrics,
		fmt.Sprintf("--webhook-port=%d", webhooks.Port),
		"--webhook-cert-dir=" + webhooks.CertDir,
	})).To(Succeed())

	running, stop := context.WithCancel(context.Background())
	m := &Manager{Metrics: metrics, Running: stage.Go(running, stop, func(ctx context.Context) error {
		return app.Run(ctx, config, settings)
	})}
	Eventually(func(g Gomega) {
		m.RequireRunning()
		g.Expect(Status(ctx, http.DefaultClient, "http://"+health+"/readyz", "")).To(Equal(http.StatusOK))
	}).Should(Succeed())
	return m
}

// Status requests a page, with a token unless it is empty, and returns the code of the response. Zero means no
// response.
func Status(ctx context.Context, c *http.Client, address, token string) int {
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
	// The body does not matter.
	_ = response.Body.Close()
	return response.StatusCode
}
