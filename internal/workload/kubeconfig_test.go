package workload_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// TestWhyThereIsNoConnection distinguishes a workload cluster that does not answer from a kubeconfig that is missing,
// invalid or not readable, and from a manager that has just started.
func TestWhyThereIsNoConnection(t *testing.T) {
	edited := func(old, replaced string) map[string]string {
		return map[string]string{"value": strings.Replace(build.SilentKubeconfig, old, replaced, 1)}
	}
	const here = "kubeconfig_test.go"
	tried := time.Unix(1_700_000_000, 0)
	for name, tc := range map[string]struct {
		secret string
		data   map[string]string
		read   error
		tried  time.Time
		want   error
		says   string
	}{
		"Valid":       {"cluster-kubeconfig", edited("", ""), nil, tried, workload.ErrUnreachable, ""},
		"NotTried":    {"other-kubeconfig", edited("", ""), nil, time.Time{}, workload.ErrNotTried, ""},
		"Unread":      {"cluster-kubeconfig", edited("", ""), errBroken, tried, errBroken, "reading Secret "},
		"Missing":     {"other-kubeconfig", edited("", ""), nil, tried, workload.ErrNoKubeconfig, "Restore Secret cluster-kubeconfig with label"},
		"NoKey":       {"cluster-kubeconfig", map[string]string{"admin.conf": build.SilentKubeconfig}, nil, tried, workload.ErrNoKubeconfig, "Secret cluster-kubeconfig has no key value. Add the key"},
		"Empty":       {"cluster-kubeconfig", map[string]string{"value": ""}, nil, tried, workload.ErrNoKubeconfig, "key value of Secret cluster-kubeconfig has no current context. Replace it"},
		"Unparsable":  {"cluster-kubeconfig", edited("users: [{", "users: {["), nil, tried, workload.ErrNoKubeconfig, "is not a kubeconfig. Replace it"},
		"NoContext":   {"cluster-kubeconfig", edited("current-context: silent", ""), nil, tried, workload.ErrNoKubeconfig, "has no current context"},
		"NoSuchEntry": {"cluster-kubeconfig", edited("current-context: silent", "current-context: other"), nil, tried, workload.ErrNoKubeconfig, "has no current context"},
		"NoServer":    {"cluster-kubeconfig", edited(`{server: "https://127.0.0.1:1"}`, "{}"), nil, tried, workload.ErrNoKubeconfig, "is invalid"},
		"BadCA":       {"cluster-kubeconfig", edited(`{server`, `{certificate-authority-data: Y2E=, server`), nil, tried, workload.ErrNoKubeconfig, "has an invalid certificate or key"},
		"Current":     {"cluster-kubeconfig", withCertificate(t, tried.Add(time.Hour)), nil, tried, workload.ErrUnreachable, ""},
		"Expired":     {"cluster-kubeconfig", withCertificate(t, tried.Add(-time.Hour)), nil, tried, workload.ErrNoKubeconfig, "has a client certificate that expired at 2023-11-14T21:13:20Z. Replace it"},
		"Plugin": {
			"cluster-kubeconfig", edited("token: credential", "exec: {apiVersion: client.authentication.k8s.io/v1, command: credential, interactiveMode: Never}"),
			nil, tried, workload.ErrNoKubeconfig, "requires a credential plugin",
		},
		"TokenFile": {
			"cluster-kubeconfig", edited("token: credential", "tokenFile: "+here),
			nil, tried, workload.ErrNoKubeconfig, "key value of Secret cluster-kubeconfig has the path of a file in tokenFile, which the manager does not read; embed the content in token. Replace it",
		},
		"TokenFileBesideToken": {
			"cluster-kubeconfig", edited("token: credential", "token: credential, tokenFile: "+here),
			nil, tried, workload.ErrNoKubeconfig, "in tokenFile",
		},
		"TokenFileOfAnotherUser": {
			"cluster-kubeconfig", edited("users: [", "users: [{name: other, user: {tokenFile: "+here+"}}, "),
			nil, tried, workload.ErrNoKubeconfig, "in tokenFile",
		},
		"CertificateFile": {
			"cluster-kubeconfig", edited("token: credential", "client-certificate: "+here),
			nil, tried, workload.ErrNoKubeconfig, "in client-certificate, which the manager does not read; embed the content in client-certificate-data",
		},
		"KeyFile": {
			"cluster-kubeconfig", edited("token: credential", "client-key: "+here),
			nil, tried, workload.ErrNoKubeconfig, "in client-key, which the manager does not read; embed the content in client-key-data",
		},
		"CAFile": {
			"cluster-kubeconfig", edited("{server", "{certificate-authority: "+here+", server"),
			nil, tried, workload.ErrNoKubeconfig, "in certificate-authority, which the manager does not read; embed the content in certificate-authority-data",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cache := &clusters{closed: true, tried: tc.tried}
			_, _, live := workload.NewControlPlanes(cache, management(tc.secret, tc.data, &tc.read)).
				Claim(t.Context(), named("cluster"), 2)
			own := management(tc.secret, tc.data, &tc.read)
			_, _, cached := workload.NewWatchedControlPlanes(cache, own, own).Claim(t.Context(), named("cluster"), 2)
			for _, err := range []error{live, cached} {
				if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, want %v with %q", err, tc.want, tc.says)
				}
				for _, other := range []error{workload.ErrUnreachable, workload.ErrNoKubeconfig} {
					if errors.Is(err, other) != errors.Is(tc.want, other) {
						t.Errorf("got %v, which is %q", err, other)
					}
				}
				for _, content := range []string{"credential\"", "token:", here} {
					if strings.Contains(err.Error(), content) {
						t.Errorf("the error has %q of the kubeconfig: %v", content, err)
					}
				}
			}
			got := workload.New(cache, own).WaitForAPIServer(t.Context(), named("cluster")).Message
			if want := waitsWith(tc.want, live); name != "NotTried" && name != "Current" && got != want {
				t.Errorf("Nodes wait with %q, want %q", got, want)
			}
		})
	}
}

// waitsWith returns the message while there is no connection.
func waitsWith(kind, cause error) string {
	if errors.Is(kind, workload.ErrNoKubeconfig) {
		return "Waiting for the API server of Cluster cluster: " + cause.Error()
	}
	return "Waiting for the API server of Cluster cluster to answer"
}

// TestARepairedKubeconfigIsTried repairs the kubeconfig of a workload cluster that may have another management cluster.
// The last attempt to connect failed for the kubeconfig, and says nothing about the API server.
func TestARepairedKubeconfigIsTried(t *testing.T) {
	cache := &clusters{closed: true, tried: time.Unix(1_700_000_000, 0)}
	own := management("cluster-kubeconfig", map[string]string{"value": "broken"}, new(error))
	planes := workload.NewControlPlanes(cache, own)
	for _, step := range []struct {
		reason, kubeconfig string
		passed             time.Duration
		want               error
	}{
		{"the kubeconfig is invalid", "broken", 0, workload.ErrNoKubeconfig},
		{"the ClusterCache tries again", "broken", 30 * time.Second, workload.ErrNoKubeconfig},
		{"the kubeconfig is repaired after the attempt", build.SilentKubeconfig, 0, workload.ErrNotTried},
		{"no attempt since", build.SilentKubeconfig, 0, workload.ErrNotTried},
		{"the API server does not answer", build.SilentKubeconfig, 30 * time.Second, workload.ErrUnreachable},
		{"nor later", build.SilentKubeconfig, 0, workload.ErrUnreachable},
	} {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: build.DefaultNamespace, Name: "cluster-kubeconfig"}
		if err := own.Get(t.Context(), key, secret); err != nil {
			t.Fatal(err)
		}
		secret.Data = map[string][]byte{"value": []byte(step.kubeconfig)}
		if err := own.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		cache.tried = cache.tried.Add(step.passed)
		_, _, err := planes.Claim(t.Context(), named("cluster"), 2)
		if !errors.Is(err, step.want) || errors.Is(err, workload.ErrNotTried) != errors.Is(step.want, workload.ErrNotTried) {
			t.Errorf("%s: got %v, want %v", step.reason, err, step.want)
		}
	}
}

// withCertificate returns the data of a Secret with a client certificate that is valid until a time.
func withCertificate(t *testing.T, until time.Time) map[string]string {
	t.Helper()
	content, err := build.CertificateKubeconfig(until)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"value": content}
}

// management returns a client of a management cluster with one Secret, which cannot be read while there is an error.
func management(secret string, data map[string]string, read *error) client.Client {
	stored := &corev1.Secret{Data: map[string][]byte{}}
	stored.Namespace, stored.Name = build.DefaultNamespace, secret
	for key, value := range data {
		stored.Data[key] = []byte(value)
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID("own")}}
	get := func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
		options ...client.GetOption,
	) error {
		if _, is := object.(*corev1.Secret); is && *read != nil {
			return *read
		}
		return c.Get(ctx, key, object, options...)
	}
	return fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(system, stored).
		WithInterceptorFuncs(interceptor.Funcs{Get: get}).Build()
}
