package hostdata_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

// metaDataCase is a spec.metaData and the expected meta-data.
type metaDataCase struct {
	edit     func(*hostdata.Subject)
	template string
	want     string
	problems []string
}

func metaDataCases() map[string]metaDataCase {
	const always = "\nproviderid: metal3/host/m3m\n"
	return map[string]metaDataCase{
		"nothing":  {template: "{}", want: always},
		"a string": {template: "strings: [{key: a, value: b}]", want: "a: b" + always},
		"a string that looks like a number stays a string": {
			template: `strings: [{key: a, value: "007"}]`, want: `a: "007"` + always,
		},
		"names": {
			template: "objectNames: [{key: a, object: machine}, {key: b, object: metal3machine}, {key: c, object: baremetalhost}]",
			want:     "{a: machine, b: m3m, c: host, providerid: metal3/host/m3m}",
		},
		"an index":                  {template: "indexes: [{key: a}]", want: `a: "2"` + always},
		"an index with all fields":  {template: "indexes: [{key: a, offset: 10, step: 2, prefix: abc, suffix: def}]", want: "a: abc14def" + always},
		"an index that counts down": {template: "indexes: [{key: a, offset: 10, step: -3}]", want: `a: "4"` + always},
		"an index below zero":       {template: "indexes: [{key: a, offset: -5}]", want: `a: "-3"` + always},
		"an index beyond 32 bits":   {template: "indexes: [{key: a, offset: 2147483647}]", want: `a: "2147483649"` + always},
		"the namespace":             {template: "namespaces: [{key: a}]", want: "a: metal3" + always},
		"labels":                    {template: "fromLabels: [{key: a, object: machine, label: rack}, {key: b, object: metal3machine, label: rack}, {key: c, object: baremetalhost, label: rack}]", want: "{a: m-rack, b: 3-rack, c: h-rack, providerid: metal3/host/m3m}"},
		"a label that is missing":   {template: "fromLabels: [{key: a, object: machine, label: none}]", want: `a: ""` + always},
		"annotations":               {template: "fromAnnotations: [{key: a, object: machine, annotation: pool}, {key: b, object: metal3machine, annotation: pool}, {key: c, object: baremetalhost, annotation: mac}]", want: `{a: pool4, b: pool6, c: "52:54:00:00:00:0c", providerid: metal3/host/m3m}`},
		"an annotation is missing":  {template: "fromAnnotations: [{key: a, object: machine, annotation: none}]", want: `a: ""` + always},
		"the MAC of an interface":   {template: "fromHostInterfaces: [{key: a, interface: eth1}]", want: `a: "52:54:00:00:00:02"` + always},
		"the boot MAC of the host":  {template: "fromHostInterfaces: [{key: a, fromBootMAC: true}]", want: `a: "52:54:00:00:00:01"` + always},
		"values of a pool of Metal3": {
			template: `{ipAddressesFromPool: [{key: a, name: pool4}], prefixesFromPool: [{key: b, name: pool4}], gatewaysFromPool: [{key: c, name: pool6}]}`,
			want:     `{a: 192.168.0.14, b: "24", c: "2001:db8::1", providerid: metal3/host/m3m}`,
		},
		"the DNS servers of a pool": {template: "dnsServersFromPool: [{key: a, name: pool4}]", want: `a: 8.8.8.8,8.8.4.4` + always},
		"pools of one name and two kinds": {
			template: `ipAddressesFromPool: [{key: a, name: pool4}, {key: b, name: pool4, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}]`,
			want:     "{a: 192.168.0.14, b: 10.0.0.14, providerid: metal3/host/m3m}",
		},
		"values of a provider of the IPAM contract": {
			template: `{ipAddressesFromPool: [{key: a, name: pool6, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}], prefixesFromPool: [{key: b, name: pool6, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}], gatewaysFromPool: [{key: c, name: pool6, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}], dnsServersFromPool: [{key: d, name: pool6, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}]}`,
			want:     `{a: "fd00::14", b: "64", c: "fd00::1", d: "", providerid: metal3/host/m3m}`,
		},
		"a pool without gateway": {template: "gatewaysFromPool: [{key: a, name: unrouted4}]", want: `a: ""` + always},
		"later lists win, and the provider ID over all": {
			template: "{fromHostInterfaces: [{key: a, interface: eth0}], namespaces: [{key: a}, {key: b}], fromAnnotations: [{key: b, object: machine, annotation: pool}], strings: [{key: a, value: last}, {key: providerid, value: mine}]}",
			want:     "{a: last, b: pool4, providerid: metal3/host/m3m}",
		},

		"an interface that is missing on the host": {
			template: "fromHostInterfaces: [{key: a, interface: eth7}]",
			problems: []string{`spec.metaData.fromHostInterfaces[a].interface: Invalid value: "eth7"`, "BareMetalHost host", "status.hardware.nics"},
		},
		"a host that was not inspected": {
			edit:     func(s *hostdata.Subject) { s.Host.Status.HardwareDetails = nil },
			template: "fromHostInterfaces: [{key: a, interface: eth0}]",
			problems: []string{"fromHostInterfaces[a].interface", "no status.hardware; inspect the host"},
		},
		"a host without boot MAC": {
			edit:     func(s *hostdata.Subject) { s.Host.Spec.BootMACAddress = "" },
			template: "fromHostInterfaces: [{key: a, fromBootMAC: true}]",
			problems: []string{"fromHostInterfaces[a].fromBootMAC", "spec.bootMACAddress; set it"},
		},
		"a pool without prefix": {
			template: "prefixesFromPool: [{key: a, name: bare}]",
			problems: []string{`prefixesFromPool[a].name: Invalid value: "bare"`, "set the prefix of the pool, then delete the Machine"},
		},
		"all problems at once": {
			template: "{fromHostInterfaces: [{key: a, interface: eth7}], ipAddressesFromPool: [{key: b, name: unknown}], objectNames: [{key: c, object: node}]}",
			problems: []string{"fromHostInterfaces[a]", "ipAddressesFromPool[b]", `objectNames[c].object: Unsupported value: "node"`},
		},
	}
}

// TestMetaDataFitsIntoASecret renders the DNS servers of a pool several times.
func TestMetaDataFitsIntoASecret(t *testing.T) {
	pools := map[hostdata.Pool]hostdata.Address{metal3("many"): {DNSServers: slices.Repeat([]string{"8.8.8.8"}, 1<<16)}}
	render := func(keys ...string) error {
		var template infrav1.MetaData
		for _, key := range keys {
			template.DNSServersFromPool = append(template.DNSServersFromPool, infrav1.FromPool{Key: key, Name: "many"})
		}
		_, err := hostdata.MetaData(&template, subject(), pools)
		return err
	}
	if err := render("a"); err != nil {
		t.Error(err)
	}
	const want = "spec.metaData.dnsServersFromPool[c]: Too long: has 524287 bytes, and with the entries before it more than " +
		"the 1048576 bytes of a Secret; shorten the value, or use it in fewer entries of a new Metal3DataTemplate"
	if err := render("a", "b", "c", "d"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestMetaData(t *testing.T) {
	for name, tc := range metaDataCases() {
		t.Run(name, func(t *testing.T) {
			template, of := read[infrav1.MetaData](t, tc.template), subject()
			if tc.edit != nil {
				tc.edit(&of)
			}
			got, err := hostdata.MetaData(&template, of, addresses())
			check(t, tc.want, tc.problems, got, err)
			if old := throughOldVersion(t, infrav1.Metal3DataTemplateSpec{MetaData: &template}); old != nil {
				got, err = hostdata.MetaData(old.MetaData, of, addresses())
				check(t, tc.want, tc.problems, got, err)
			}
		})
	}
}

func TestDuplicateKeys(t *testing.T) {
	const remedy = " spec.metaData is immutable: create a Metal3DataTemplate that renders each key once, and name it in " +
		"spec.template.spec.dataTemplate of a new Metal3MachineTemplate."
	cases := map[string]struct{ template, want string }{
		"none": {template: "{strings: [{key: a, value: b}], namespaces: [{key: b}]}"},
		"two lists": {
			template: "{strings: [{key: a, value: b}], namespaces: [{key: a}]}",
			want:     "Key a of spec.metaData is taken from strings, and not from namespaces." + remedy,
		},
		"three lists and the key of the provider": {
			template: "{strings: [{key: a, value: b}, {key: providerid, value: c}], namespaces: [{key: a}], indexes: [{key: a}]}",
			want: "Key a of spec.metaData is taken from strings, and not from indexes and namespaces. " +
				"spec.metaData.strings[providerid] has no effect, because the provider sets this key." + remedy,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template := read[infrav1.MetaData](t, tc.template)
			if diff := cmp.Diff(tc.want, hostdata.DuplicateKeys(&template)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if got := hostdata.DuplicateKeys(nil); got != "" {
		t.Errorf("a template without meta-data has duplicate keys: %s", got)
	}
}

// TestEmptyValues names the labels and annotations that objects lack. CAPM3 renders an empty value for each.
func TestEmptyValues(t *testing.T) {
	subject := hostdata.Subject{
		Machine:       &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"zone": "a", "blank": ""}}},
		Metal3Machine: &infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "mm"}},
		Host: &bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
			Name: "host-0", Annotations: map[string]string{"rack": "7"},
		}},
	}
	const remedy = ": set it before the data is rendered. Rendered data does not change: delete the Machine afterwards."
	cases := map[string]struct{ template, want string }{
		"nothing is missing": {template: "{fromLabels: [{key: z, object: machine, label: zone}], fromAnnotations: [{key: r, object: baremetalhost, annotation: rack}]}"},
		"an annotation": {
			template: "{fromAnnotations: [{key: r, object: metal3machine, annotation: rack}]}",
			want:     "spec.metaData.fromAnnotations[r] is empty, because Metal3Machine mm has no annotation rack" + remedy,
		},
		"a label that is empty on purpose": {template: "{fromLabels: [{key: b, object: machine, label: blank}]}"},
		"several": {
			template: "{fromLabels: [{key: z, object: baremetalhost, label: zone}], fromAnnotations: [{key: r, object: machine, annotation: rack}]}",
			want: "spec.metaData.fromLabels[z] is empty, because BareMetalHost host-0 has no label zone" + remedy +
				" spec.metaData.fromAnnotations[r] is empty, because Machine m has no annotation rack" + remedy,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template := read[infrav1.MetaData](t, tc.template)
			if diff := cmp.Diff(tc.want, hostdata.EmptyValues(&template, subject)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if got := hostdata.EmptyValues(nil, subject); got != "" {
		t.Errorf("a template without meta-data has empty values: %s", got)
	}
}
