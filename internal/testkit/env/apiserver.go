package env

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/certificates"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
)

const (
	// loopback is the listen address of all programs.
	loopback = "127.0.0.1"

	// startLimit is the time limit for the first response of a program. It is long because machines that run tests are
	// busy. The end of a program is noticed at once.
	startLimit = 5 * time.Minute

	// apiServerMemory and etcdMemory are enough for all CRDs and the objects of a suite.
	apiServerMemory = "400MiB"
	etcdMemory      = "200MiB"
)

func (s *Server) prepareCertificates() error {
	var err error
	if s.authority, err = certificates.NewAuthority("metal3-env"); err != nil {
		return err
	}
	if _, err := s.group.WriteFile(authorityFile, s.authority.Certificate()); err != nil {
		return err
	}
	if _, err := s.serverPair("kube-apiserver"); err != nil {
		return err
	}
	key, err := certificates.NewSigningKey()
	if err != nil {
		return err
	}
	s.signingKey, err = s.group.WriteFile("service-accounts.key", key)
	if err != nil {
		return err
	}
	s.token = rand.Text()
	s.tokens, err = s.group.WriteFile("tokens.csv", fmt.Appendf(nil, "%s,%s,%[2]s,%s\n", s.token, admin, administrators))
	if err != nil {
		return err
	}
	s.Webhook, err = s.NewWebhookServer("webhook")
	return err
}

// serverPair writes a certificate for a server on the loopback interface into a new folder, and returns the folder.
func (s *Server) serverPair(name string) (string, error) {
	pair, err := s.authority.Server(loopback, "localhost")
	if err != nil {
		return "", err
	}
	if _, err := s.group.WriteFile(filepath.Join(name, certificateFile), pair.Certificate); err != nil {
		return "", err
	}
	path, err := s.group.WriteFile(filepath.Join(name, keyFile), pair.Key)
	return filepath.Dir(path), err
}

// The administrator.
const (
	admin          = "admin"
	administrators = "system:masters"
)

// Names of files. Those of a certificate and its key are defined by controller-runtime.
const (
	authorityFile   = "authority.crt"
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// runAPIServer starts etcd and kube-apiserver, and waits for kube-apiserver, which waits for etcd, and for the CRDs of
// the seed.
func (s *Server) runAPIServer(ctx context.Context, planted seed) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.runEtcd(ctx, planted); err != nil {
		return err
	}
	var err error
	if s.address, err = s.group.Address(); err != nil {
		return err
	}
	args, err := s.apiServerArgs()
	if err != nil {
		return err
	}
	child, err := s.group.Start(process.Program{
		Name: "kube-apiserver", Path: filepath.Join(s.programs.folder, "kube-apiserver"), Args: args,
		Env: s.environment(apiServerMemory),
	})
	if err != nil {
		return err
	}
	if s.Config, err = s.User(admin, administrators); err != nil {
		return err
	}
	if s.Kubeconfig, err = s.WriteKubeconfig(admin, s.Config); err != nil {
		return err
	}
	s.Config.CertData, s.Config.KeyData, s.Config.BearerToken = nil, nil, s.token
	clients, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	if err := child.WaitReady(ctx, func(ctx context.Context) error { return probeAPIServer(ctx, clients) }); err != nil {
		return err
	}
	return s.waitForDefinitions(planted.Definitions)
}

// runEtcd starts etcd with a seed.
func (s *Server) runEtcd(ctx context.Context, planted seed) error {
	address, err := s.group.Address()
	if err != nil {
		return err
	}
	s.etcd = "http://" + address
	child, err := s.group.Start(process.Program{
		Name: "etcd", Path: filepath.Join(s.programs.folder, "etcd"), Args: s.etcdArgs(), Env: s.environment(etcdMemory),
	})
	if err != nil || len(planted.Pairs) == 0 {
		return err
	}
	return child.WaitReady(ctx, func(ctx context.Context) error { return s.plant(ctx, planted) })
}

// probeAPIServer also reads the namespace: the API server creates it a moment after it is ready.
func probeAPIServer(ctx context.Context, clients kubernetes.Interface) error {
	if _, err := clients.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return err
	}
	_, err := clients.CoreV1().Namespaces().Get(ctx, corev1.NamespaceDefault, metav1.GetOptions{})
	return err
}

func (s *Server) environment(memory string) []string {
	if !s.options.Roomy {
		return nil
	}
	return []string{"GOGC=off", "GOMEMLIMIT=" + memory}
}

func (s *Server) etcdArgs() []string {
	return []string{
		"--data-dir=" + filepath.Join(s.group.Folder(), "etcd"),
		"--listen-client-urls=" + s.etcd,
		"--advertise-client-urls=" + s.etcd,
		// A single member has no peers, so any port will do.
		"--listen-peer-urls=http://" + net.JoinHostPort(loopback, "0"),
		"--unsafe-no-fsync=true",
		"--log-level=warn",
	}
}

func (s *Server) apiServerArgs() ([]string, error) {
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return nil, err
	}
	folder := s.group.Folder()
	args := []string{
		"--etcd-servers=" + s.etcd,
		"--bind-address=" + host,
		"--advertise-address=" + host,
		"--secure-port=" + port,
		"--cert-dir=" + filepath.Join(folder, "kube-apiserver"),
		"--tls-cert-file=" + filepath.Join(folder, "kube-apiserver", certificateFile),
		"--tls-private-key-file=" + filepath.Join(folder, "kube-apiserver", keyFile),
		"--client-ca-file=" + filepath.Join(folder, authorityFile),
		"--token-auth-file=" + s.tokens,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://" + s.address,
		"--service-account-key-file=" + s.signingKey,
		"--service-account-signing-key-file=" + s.signingKey,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true",
		// No controller creates service accounts for pods, and no pod runs.
		"--disable-admission-plugins=ServiceAccount",
		"--watch-cache=" + strconv.FormatBool(s.options.WatchCache),
	}
	if s.options.Audit {
		audit, err := s.auditArgs()
		if err != nil {
			return nil, fmt.Errorf("writing the audit policy: %w", err)
		}
		args = append(args, audit...)
	}
	for _, flag := range s.options.APIServerFlags {
		args = append(args, "--"+flag)
	}
	return args, nil
}

// User returns the configuration of a client for a user with these groups. RBAC decides its permissions.
func (s *Server) User(name string, groups ...string) (*rest.Config, error) {
	pair, err := s.authority.User(name, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: "https://" + s.address,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: s.authority.Certificate(), CertData: pair.Certificate, KeyData: pair.Key,
		},
		// No limit: a test measures the server and the code under test, not the client.
		QPS:           -1,
		WrapTransport: waitForStorage,
	}, nil
}

// ServiceAccount returns the configuration of a client for a service account, with the groups that a token gives it.
func (s *Server) ServiceAccount(namespace, name string) (*rest.Config, error) {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
	return s.User("system:serviceaccount:"+namespace+":"+name, groups...)
}
