package plugin

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// configured is a Deployment of BMO with these containers.
func configured(containers ...corev1.Container) *appsv1.Deployment {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bmo", Name: "bmo"}}
	deployment.Spec.Template.Spec.Containers = containers
	return deployment
}

func fromMap(prefix, name string) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name},
	}}
}

func fromSecret(name string) corev1.EnvFromSource {
	return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name},
	}}
}

func TestIronicOf(t *testing.T) {
	read := settings{
		namespace: "bmo",
		maps: map[string]map[string]string{
			"ironic": {"IRONIC_ENDPOINT": "https://172.22.0.2:6385/v1/"}, "irso": {"IRONIC_NAME": "ironic"},
			"other":  {"IRONIC_ENDPOINT": "http://[fd00::2]/v1", "HTTP_PORT": "6180"},
			"prefix": {"ENDPOINT": "https://172.22.0.9:6385"},
		},
		unreadable: map[string]bool{"hidden": true},
	}
	key := func(name, key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key,
		}}
	}
	secret := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "url"}}
	for name, tc := range map[string]struct {
		reason     string
		containers []corev1.Container
		want       ironicUse
	}{
		"Release": {
			"the release of BMO takes all of a ConfigMap", []corev1.Container{{EnvFrom: []corev1.EnvFromSource{fromMap("", "ironic")}}},
			ironicUse{endpoint: "https://172.22.0.2:6385"},
		},
		"Operator": {
			"the release for the Ironic Standalone Operator names an object",
			[]corev1.Container{{EnvFrom: []corev1.EnvFromSource{fromMap("", "irso")}}},
			ironicUse{endpoint: "Ironic bmo/ironic", own: true},
		},
		"OperatorElsewhere": {
			"the object may be in another namespace", []corev1.Container{{Env: []corev1.EnvVar{
				{Name: "IRONIC_NAME", Value: "main"}, {Name: "IRONIC_NAMESPACE", Value: "metal"},
				{Name: "IRONIC_ENDPOINT", Value: "https://172.22.0.2:6385"},
			}}}, ironicUse{endpoint: "Ironic metal/main", own: true},
		},
		"Variable": {
			"env wins over envFrom, and the last entry over the others", []corev1.Container{{
				Env: []corev1.EnvVar{
					{Name: "IRONIC_ENDPOINT", Value: "https://172.22.0.3"}, {Name: "IRONIC_ENDPOINT", Value: "HTTPS://Ironic.Example.com:6385/v1"},
				},
				EnvFrom: []corev1.EnvFromSource{fromMap("", "ironic")},
			}}, ironicUse{endpoint: "https://ironic.example.com:6385"},
		},
		"LastSource": {
			"of several sources the last one wins, and a port may be left out",
			[]corev1.Container{{EnvFrom: []corev1.EnvFromSource{fromSecret("s"), fromMap("", "ironic"), fromMap("", "other")}}},
			ironicUse{endpoint: "http://[fd00::2]:80"},
		},
		"Prefix": {
			"a source may have a prefix", []corev1.Container{{EnvFrom: []corev1.EnvFromSource{fromMap("", "ironic"), fromMap("IRONIC_", "prefix")}}},
			ironicUse{endpoint: "https://172.22.0.9:6385"},
		},
		"Key": {
			"one key of a ConfigMap", []corev1.Container{{Env: []corev1.EnvVar{{Name: "IRONIC_ENDPOINT", ValueFrom: key("prefix", "ENDPOINT")}}}},
			ironicUse{endpoint: "https://172.22.0.9:6385"},
		},
		"SecondContainer": {
			"a proxy may come first", []corev1.Container{{Name: "proxy"}, {EnvFrom: []corev1.EnvFromSource{fromMap("", "ironic")}}},
			ironicUse{endpoint: "https://172.22.0.2:6385"},
		},
		"Service": {
			"only the own cluster resolves the name", []corev1.Container{{Env: []corev1.EnvVar{{Name: "IRONIC_ENDPOINT", Value: "http://ironic.metal3.svc.cluster.local:6385"}}}},
			ironicUse{endpoint: "http://ironic.metal3.svc.cluster.local:6385", own: true},
		},
		"Loopback": {
			"Ironic in the same pod or on the same node", []corev1.Container{{Env: []corev1.EnvVar{{Name: "IRONIC_ENDPOINT", Value: "http://127.0.0.1:6385/v1/"}}}},
			ironicUse{endpoint: "http://127.0.0.1:6385", own: true},
		},
		"Password": {
			"a password in a URL is not told", []corev1.Container{{Env: []corev1.EnvVar{{Name: "IRONIC_ENDPOINT", Value: "https://me:secret@172.22.0.2:6385"}}}},
			ironicUse{endpoint: "https://172.22.0.2:6385"},
		},
		"SecretLater": {
			"the content of a Secret is not read", []corev1.Container{{EnvFrom: []corev1.EnvFromSource{fromMap("", "ironic"), fromSecret("s")}}},
			ironicUse{unknown: "Secret s may set IRONIC_ENDPOINT, and its content is not read"},
		},
		"SecretKey": {
			"the same", []corev1.Container{{Env: []corev1.EnvVar{{Name: "IRONIC_ENDPOINT", ValueFrom: secret}}}},
			ironicUse{unknown: "IRONIC_ENDPOINT does not come from a ConfigMap"},
		},
		"Reference": {
			"the kubelet expands it", []corev1.Container{{Env: []corev1.EnvVar{{Name: "IRONIC_ENDPOINT", Value: "https://$(HOST):6385"}}}},
			ironicUse{unknown: "IRONIC_ENDPOINT refers to another variable"},
		},
		"Hidden": {
			"the user may not read it", []corev1.Container{{EnvFrom: []corev1.EnvFromSource{fromMap("", "hidden")}}},
			ironicUse{unknown: "ConfigMap bmo/hidden may set IRONIC_ENDPOINT, and you may not read it"},
		},
		"NoURL": {
			"the value is not quoted, because it may have a password",
			[]corev1.Container{{Env: []corev1.EnvVar{{Name: "IRONIC_ENDPOINT", Value: "me:secret@172.22.0.2"}}}},
			ironicUse{unknown: "IRONIC_ENDPOINT is no URL with http or https"},
		},
		"Nothing": {
			"BMO would not start", []corev1.Container{{EnvFrom: []corev1.EnvFromSource{fromMap("", "gone")}}},
			ironicUse{unknown: "the Deployment sets neither IRONIC_ENDPOINT nor IRONIC_NAME"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := read.ironicOf(configured(tc.containers...))
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(ironicUse{})); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWatches(t *testing.T) {
	own := corev1.EnvVar{Name: "WATCH_NAMESPACE", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"},
	}}
	for name, tc := range map[string]struct {
		reason    string
		container corev1.Container
		want      bool
	}{
		"All":      {"the release watches all namespaces", corev1.Container{Args: []string{"--enable-leader-election"}}, true},
		"Flag":     {"the flag has a list", corev1.Container{Args: []string{"--namespace=a,metal3"}}, true},
		"Others":   {"of other namespaces", corev1.Container{Args: []string{"-namespace", "a,b"}}, false},
		"Variable": {"the variable has one", corev1.Container{Env: []corev1.EnvVar{{Name: "WATCH_NAMESPACE", Value: "a"}}}, false},
		"Own":      {"that of the pod", corev1.Container{Env: []corev1.EnvVar{own}}, false},
		"Both": {
			"the flag wins", corev1.Container{
				Command: []string{"/baremetal-operator", "--namespace", "metal3"}, Env: []corev1.EnvVar{own},
			}, true,
		},
	} {
		if got := (settings{namespace: "bmo"}).watches(configured(tc.container), "metal3"); got != tc.want {
			t.Errorf("%s: %s: got %t", name, tc.reason, got)
		}
	}
}

// ironicCase are the BMOs of both sides.
type ironicCase struct {
	reason         string
	source, target []operator
	edit           func(source, target *scope)
	want           []string
}

func unknownTo(why string) operator {
	found := bmo(vip)
	found.uses = ironicUse{unknown: why}
	return found
}

func TestIronicObstacles(t *testing.T) {
	without := func(source, _ *scope) {
		source.infras[0].Spec.Ironic = nil
	}
	elsewhere := func(source, target *scope) {
		without(source, target)
		other := runningInfra("d")
		other.Namespace = "other"
		source.everywhere = append(source.everywhere, other)
	}
	const remedy = ": set IRONIC_ENDPOINT of BMO to the same Ironic and restart BMO, or, if hosts are to change their Ironic " +
		"with the move, use --ignore IronicDiffers"
	const compare = ": compare the Ironic of both sides yourself, and use --ignore IronicUnknown"
	const there = "Deployment baremetal-operator-system/bmo of BMO uses "
	for name, tc := range map[string]ironicCase{
		"VIP": {reason: "both use the VIP", source: []operator{bmo(vip)}, target: []operator{bmo(vip + "/v1/")}},
		"VIPAlone": {
			reason: "the source may reach the same Ironic by its Service, or not be known",
			source: []operator{bmo("http://ironic.metal3-ironic-system.svc")}, target: []operator{bmo(vip)},
		},
		"NoSource": {reason: "the VIP decides", target: []operator{bmo(vip)}},
		"Another": {
			reason: "hosts would be resumed with an Ironic that does not know them", source: []operator{bmo(vip)},
			target: []operator{bmo("https://192.0.2.3:6385/v1/")},
			want:   []string{"target: " + there + "https://192.0.2.3:6385, and spec.ironic of Metal3Cluster metal3/c has " + vip + remedy},
		},
		"NoTLS": {
			reason: "spec.ironic speaks TLS alone", source: []operator{bmo(vip)}, target: []operator{bmo("http://192.0.2.2:6385")},
			want: []string{"target: " + there + "http://192.0.2.2:6385, and spec.ironic of Metal3Cluster metal3/c has " + vip + remedy},
		},
		"AnotherInSource": {
			reason: "hosts would change their Ironic", source: []operator{bmo("https://192.0.2.3:6385")}, target: []operator{bmo(vip)},
			want: []string{"source: " + there + "https://192.0.2.3:6385, and spec.ironic of Metal3Cluster metal3/c has " + vip + remedy},
		},
		"Unknown": {
			reason: "nothing is guessed", source: []operator{bmo(vip)}, target: []operator{unknownTo("it is hidden")},
			want: []string{"target: the Ironic that Deployment baremetal-operator-system/bmo of BMO uses is not known: it is hidden" + compare},
		},
		"Elsewhere": {
			reason: "the VIP of another namespace serves a namespace without spec.ironic", edit: elsewhere,
			source: []operator{bmo(vip)}, target: []operator{bmo("https://192.0.2.3:6385")},
			want: []string{"target: " + there + "https://192.0.2.3:6385, and spec.ironic of Metal3Cluster other/d has " + vip + remedy},
		},
		"Same": {
			reason: "without spec.ironic, both have to use one URL", edit: without,
			source: []operator{bmo("http://192.0.2.3:6385/v1/")}, target: []operator{bmo("http://192.0.2.3:6385")},
		},
		"Differs": {
			reason: "the hosts would be registered anew", edit: without,
			source: []operator{bmo("http://192.0.2.3:6385/v1/")}, target: []operator{bmo("http://192.0.2.4:6385")},
			want: []string{"target: " + there + "http://192.0.2.4:6385, and BMO of the source has http://192.0.2.3:6385" + remedy},
		},
		"SameService": {
			reason: "one name, and two Ironics", edit: without,
			source: []operator{bmo("http://ironic.bmo.svc")}, target: []operator{bmo("http://ironic.bmo.svc")},
			want: []string{"target: " + there + "http://ironic.bmo.svc:80 in its own cluster, and BMO of the source has " +
				"http://ironic.bmo.svc:80 in its own cluster" + remedy},
		},
		"UnknownInSource": {
			reason: "there is nothing to compare with", edit: without,
			source: []operator{unknownTo("it is hidden")}, target: []operator{bmo(vip)},
			want: []string{"source: the Ironic that Deployment baremetal-operator-system/bmo of BMO uses is not known: it is hidden" + compare},
		},
		"NoSourceNoVIP": {
			reason: "there is nothing to compare with", edit: without, target: []operator{bmo(vip)},
			want: []string{"source: no Deployment that watches namespace metal3 has the label " +
				"webhook=metal3-io-v1alpha1-baremetalhost, so the Ironic of the source is not known: compare the Ironic of the " +
				"source with " + vip + ", and use --ignore IronicUnknown"},
		},
		"SameCluster": {
			reason: "that is told already", target: []operator{bmo("https://192.0.2.3")},
			edit: func(_, target *scope) { target.identity = "source" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			source, target := ready(), empty()
			source.operators, target.operators = tc.source, tc.target
			if tc.edit != nil {
				tc.edit(source, target)
			}
			var got []string
			for _, each := range arrivalOf(source, target).ironicObstacles() {
				got = append(got, each.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestServing tests which Metal3Clusters have the VIP that a BMO must use.
func TestServing(t *testing.T) {
	in := func(namespace, name, clusterID string) *infrav1.Metal3Cluster {
		infra := runningInfra(name)
		infra.Namespace, infra.Spec.Ironic.ClusterID = namespace, clusterID
		return infra
	}
	bare := in("a", "bare", "")
	bare.Spec.Ironic = nil
	for name, tc := range map[string]struct {
		infras []*infrav1.Metal3Cluster
		want   []string
	}{
		"None":      {[]*infrav1.Metal3Cluster{bare}, nil},
		"Own":       {[]*infrav1.Metal3Cluster{bare, in("a", "one", "1"), in("b", "two", "2")}, []string{"one"}},
		"Elsewhere": {[]*infrav1.Metal3Cluster{bare, in("b", "one", "1"), in("c", "two", "1")}, []string{"one", "two"}},
		"Several":   {[]*infrav1.Metal3Cluster{in("b", "one", "1"), in("c", "two", "2")}, nil},
	} {
		var got []string
		for _, infra := range serving(tc.infras, "a") {
			got = append(got, infra.Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestDependence(t *testing.T) {
	const url = "http://192.0.2.9:6385"
	upstream := []workload{{"Deployment", types.NamespacedName{Namespace: "baremetal-operator-system", Name: "ironic"}}}
	vips := map[string][]*infrav1.Metal3Cluster{vip: {runningInfra("c")}}
	for name, tc := range map[string]struct {
		reason string
		facts  dependence
		want   []pivot.Code
		text   string
	}{
		"NoOperator": {"nothing manages the hosts", dependence{source: []operator{bmo(url)}}, []pivot.Code{pivot.CodeOperatorMissing}, "target: BMO was not found"},
		"Unknown": {
			"nothing is guessed", dependence{target: []operator{unknownTo("it is hidden")}, source: []operator{bmo(url)}},
			[]pivot.Code{pivot.CodeIronicUnknown}, "not known: it is hidden: find out whether it runs in the source",
		},
		"VIP": {
			"its holder is judged apart", dependence{target: []operator{bmo(vip)}, source: []operator{bmo(vip)}, vips: vips, workloads: upstream}, nil, "",
		},
		"Own": {
			"it stays with the target", dependence{target: []operator{bmo("http://ironic.bmo.svc")}, source: []operator{bmo(url)}, workloads: upstream}, nil, "",
		},
		"Upstream": {
			"the Ironic of the source serves the hosts", dependence{target: []operator{bmo(url)}, source: []operator{bmo(url)}, workloads: upstream},
			[]pivot.Code{pivot.CodeIronicStillNeeded},
			"source: Deployment baremetal-operator-system/ironic runs Ironic in the source, and BMO of the target " +
				"(Deployment baremetal-operator-system/bmo) uses http://192.0.2.9:6385: give BMO of the target an Ironic outside of the source",
		},
		"OtherNames": {
			"two URLs may lead to one Ironic", dependence{target: []operator{bmo(url)}, source: []operator{bmo("http://ironic.bmo.svc")}, workloads: upstream},
			[]pivot.Code{pivot.CodeIronicStillNeeded}, "",
		},
		"NotSeen": {
			"it may run beside the cluster on the same machine", dependence{target: []operator{bmo(url)}, source: []operator{bmo(url)}},
			[]pivot.Code{pivot.CodeIronicUnknown}, "switch the source off only if that Ironic runs on no machine of the source",
		},
		"SourceHidden": {
			"it may be the same", dependence{target: []operator{bmo(url)}, source: []operator{unknownTo("it is hidden")}},
			[]pivot.Code{pivot.CodeIronicUnknown}, "",
		},
		"SourceGone":  {"it may be the same", dependence{target: []operator{bmo(url)}}, []pivot.Code{pivot.CodeIronicUnknown}, ""},
		"SourceOwn":   {"it may be the same", dependence{target: []operator{bmo(url)}, source: []operator{bmo("http://localhost")}}, []pivot.Code{pivot.CodeIronicUnknown}, ""},
		"Independent": {"each side has its own", dependence{target: []operator{bmo(url)}, source: []operator{bmo(vip)}}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := tc.facts.obstacles()
			var got []pivot.Code
			for _, each := range found {
				got = append(got, each.Code)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if text := pivot.Enumerate(found); !strings.Contains(text, tc.text) {
				t.Errorf("%s: got %s", tc.reason, text)
			}
		})
	}
}

// TestHandoverObstacles tests the VIPs that hosts depend on.
func TestHandoverObstacles(t *testing.T) {
	in := func(namespace string, armed bool) *infrav1.Metal3Cluster {
		infra := runningInfra("c")
		infra.Namespace = namespace
		infra.Status.Ironic.Nodes[0].Armed = &armed
		return infra
	}
	for name, tc := range map[string]struct {
		reason string
		infras []*infrav1.Metal3Cluster
		vips   []*infrav1.Metal3Cluster
		busy   string
		want   int
	}{
		"Own":           {"the endpoint of the namespace", []*infrav1.Metal3Cluster{in("metal3", false)}, []*infrav1.Metal3Cluster{in("metal3", false)}, "", 1},
		"OwnArmed":      {"a node can take it", []*infrav1.Metal3Cluster{in("metal3", true)}, []*infrav1.Metal3Cluster{in("metal3", true), in("b", false)}, "", 0},
		"Busy":          {"the next Ironic would begin again", []*infrav1.Metal3Cluster{in("metal3", true)}, nil, "metal3", 1},
		"BusyElsewhere": {"BMO has one Ironic for all namespaces", []*infrav1.Metal3Cluster{in("metal3", true)}, nil, "b", 1},
		"Elsewhere":     {"BMO has one Ironic for all namespaces", nil, []*infrav1.Metal3Cluster{in("b", false)}, "", 1},
		"OneOfTwo":      {"one with a node that can take the VIP is enough", nil, []*infrav1.Metal3Cluster{in("b", false), in("d", true)}, "", 0},
		"NoEndpoint":    {"there is no VIP", nil, nil, "", 0},
	} {
		arrived := &scope{
			sight: &sight{namespace: build.DefaultNamespace, infras: tc.infras}, operators: []operator{bmo(vip)},
		}
		var hosts []*bmov1alpha1.BareMetalHost
		if tc.busy != "" {
			hosts = append(hosts, build.Host("busy", build.InNamespace(tc.busy), build.State(bmov1alpha1.StateProvisioning)))
		}
		got := arrived.handoverObstacles(map[string][]*infrav1.Metal3Cluster{vip: tc.vips}, hosts)
		if len(got) != tc.want {
			t.Errorf("%s: %s: got %v", name, tc.reason, got)
		}
	}
}

// TestDependsOnSource reads the hosts of all namespaces of the target.
func TestDependsOnSource(t *testing.T) {
	operator := configured(corev1.Container{Env: []corev1.EnvVar{{Name: "IRONIC_ENDPOINT", Value: vip}}})
	operator.Labels = map[string]string{operatorLabel: operatorValue}
	operator.Status.AvailableReplicas = 1
	infra, owner := runningInfra("c"), runningCluster("c")
	infra.Status.Ironic.Nodes[0].Armed = ptr.To(true)
	machine := build.Machine("m", "c")
	machine.Spec.ProviderID = "metal3://m"
	for name, tc := range map[string]struct {
		state      bmov1alpha1.ProvisioningState
		providerID string
		want       []pivot.Code
	}{
		"Idle":     {bmov1alpha1.StateProvisioned, "kind://source", nil},
		"Busy":     {bmov1alpha1.StateProvisioning, "kind://source", []pivot.Code{pivot.CodeHostBusy}},
		"NoID":     {bmov1alpha1.StateProvisioned, "", nil},
		"MoveBack": {bmov1alpha1.StateProvisioned, "metal3://m", []pivot.Code{pivot.CodeInTarget}},
	} {
		host := build.Host("host", build.InNamespace("b"), build.State(tc.state))
		target := fake.NewClientBuilder().WithScheme(scheme()).WithObjects(operator, infra, owner, host, machine).Build()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: corev1.NodeSpec{ProviderID: tc.providerID}}
		source := fake.NewClientBuilder().WithScheme(scheme()).WithObjects(node).Build()
		c := &recovery{
			where:  sides{namespace: build.DefaultNamespace},
			source: &cluster{client: source, side: sourceSide}, target: &cluster{client: target, side: targetSide},
		}
		found, err := c.dependsOnSource(t.Context())
		if err != nil || !slices.Equal(tc.want, codesIn(found)) {
			t.Errorf("%s: got %v, %v", name, found, err)
		}
	}
}
