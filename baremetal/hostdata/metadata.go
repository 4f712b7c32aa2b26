package hostdata

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// providerIDKey is the key that is always rendered.
const providerIDKey = "providerid"

// entry is one key of the meta-data.
type entry struct {
	key   string
	list  string
	value func(path *field.Path) (string, *field.Error)
}

// MetaData renders the meta-data: a YAML map of strings. It returns an error before the values exceed the limit of a
// Secret: entries repeat DNS servers of pools and annotations, which could exhaust the memory.
func MetaData(data *infrav1.MetaData, subject Subject, addresses map[Pool]Address) ([]byte, error) {
	rendered := map[string]string{}
	var problems field.ErrorList
	path := field.NewPath("spec", "metaData")
	size := 0
	for _, entry := range entries(data, subject, addresses) {
		at := path.Child(entry.list).Key(entry.key)
		value, err := entry.value(at)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if size += len(value); size > corev1.MaxSecretSize {
			problems = append(problems, noSpace(at, len(value)))
			break
		}
		rendered[entry.key] = value
	}
	if err := problems.ToAggregate(); err != nil {
		return nil, err
	}
	rendered[providerIDKey] = strings.Join(
		[]string{subject.Metal3Machine.Namespace, subject.Host.Name, subject.Metal3Machine.Name}, "/")
	return yaml.Marshal(rendered)
}

// DuplicateKeys returns a message about the keys of the meta-data that several entries render. Empty if there are none.
func DuplicateKeys(data *infrav1.MetaData) string {
	if data == nil {
		return ""
	}
	lists := map[string][]string{providerIDKey: {""}}
	for _, entry := range entries(data, Subject{}, nil) {
		lists[entry.key] = append(lists[entry.key], entry.list)
	}
	var sentences []string
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		switch in := lists[key]; {
		case key == providerIDKey && len(in) > 1:
			sentences = append(sentences, fmt.Sprintf("spec.metaData.%s[%s] has no effect, because the provider sets "+
				"this key.", in[len(in)-1], key))
		case len(in) > 1:
			last := len(in) - 1
			sentences = append(sentences, fmt.Sprintf("Key %s of spec.metaData is taken from %s, and not from %s.",
				key, in[last], strings.Join(in[:last], " and ")))
		}
	}
	if len(sentences) == 0 {
		return ""
	}
	return strings.Join(sentences, " ") + " " +
		replaceTemplate("spec.metaData", "a Metal3DataTemplate that renders each key once")
}

// EmptyValues returns a message about the labels and annotations that are missing. Their values are empty, as in CAPM3.
// Empty if there are none. MetaData must have succeeded.
func EmptyValues(data *infrav1.MetaData, subject Subject) string {
	if data == nil {
		return ""
	}
	var sentences []string
	for _, e := range lookups(data) {
		object := subject.object(e.source)
		if _, found := e.values(object)[e.name]; !found {
			sentences = append(sentences, fmt.Sprintf("spec.metaData.%s[%s] is empty, because %s %s has no %s %s: set it "+
				"before the data is rendered. Rendered data does not change: delete the Machine afterwards.",
				e.list, e.key, kindOf(e.source), object.GetName(), e.what, e.name))
		}
	}
	return strings.Join(sentences, " ")
}

// entries returns the entries of the meta-data in the order of evaluation. The last entry with a key wins.
func entries(data *infrav1.MetaData, subject Subject, addresses map[Pool]Address) []entry {
	var all []entry
	add := func(list, key string, value func(path *field.Path) (string, *field.Error)) {
		all = append(all, entry{key: key, list: list, value: value})
	}
	for _, e := range data.FromHostInterfaces {
		add("fromHostInterfaces", e.Key, func(path *field.Path) (string, *field.Error) {
			return interfaceMAC(path, e, subject)
		})
	}
	for _, list := range poolLists(data) {
		for _, e := range list.entries {
			add(list.name, e.Key, func(path *field.Path) (string, *field.Error) {
				address, found := addresses[newPool(e.APIGroup, e.Kind, e.Name)]
				if !found {
					return "", noAddress(path.Child("name"), e.Name)
				}
				return list.value(path, e.Name, address)
			})
		}
	}
	for _, e := range data.Indexes {
		add("indexes", e.Key, func(*field.Path) (string, *field.Error) { return indexValue(e, subject.Index), nil })
	}
	for _, e := range data.Namespaces {
		add("namespaces", e.Key, func(*field.Path) (string, *field.Error) { return subject.Metal3Machine.Namespace, nil })
	}
	return append(all, objectEntries(data, subject)...)
}

// objectEntries returns the entries that take values from objects, and the fixed values.
func objectEntries(data *infrav1.MetaData, subject Subject) []entry {
	var all []entry
	from := func(list, key string, source infrav1.SourceObject, value func() string) {
		all = append(all, entry{key: key, list: list, value: func(path *field.Path) (string, *field.Error) {
			if subject.object(source) == nil {
				return "", unknownObject(path.Child("object"), source)
			}
			return value(), nil
		}})
	}
	for _, e := range data.ObjectNames {
		from("objectNames", e.Key, e.Object, func() string { return subject.object(e.Object).GetName() })
	}
	for _, e := range lookups(data) {
		from(e.list, e.key, e.source, func() string { return e.values(subject.object(e.source))[e.name] })
	}
	for _, e := range data.Strings {
		all = append(all, entry{key: e.Key, list: "strings", value: func(*field.Path) (string, *field.Error) {
			return e.Value, nil
		}})
	}
	return all
}

// lookup is an entry that takes the value of a label or an annotation of an object.
type lookup struct {
	list, key  string
	source     infrav1.SourceObject
	what, name string
	values     func(metav1.Object) map[string]string
}

func lookups(data *infrav1.MetaData) []lookup {
	all := make([]lookup, 0, len(data.FromLabels)+len(data.FromAnnotations))
	for _, e := range data.FromLabels {
		all = append(all, lookup{"fromLabels", e.Key, e.Object, "label", e.Label, metav1.Object.GetLabels})
	}
	for _, e := range data.FromAnnotations {
		all = append(all, lookup{
			"fromAnnotations", e.Key, e.Object, "annotation", e.Annotation, metav1.Object.GetAnnotations,
		})
	}
	return all
}

// poolList is a list of entries that take one property of an address.
type poolList struct {
	name    string
	entries []infrav1.FromPool
	value   func(path *field.Path, pool string, address Address) (string, *field.Error)
}

func poolLists(data *infrav1.MetaData) []poolList {
	return []poolList{
		{"ipAddressesFromPool", data.IPAddressesFromPool, func(_ *field.Path, _ string, a Address) (string, *field.Error) {
			return a.Address, nil
		}},
		{"prefixesFromPool", data.PrefixesFromPool, func(path *field.Path, pool string, a Address) (string, *field.Error) {
			if a.Prefix == nil {
				return "", noPrefix(path.Child("name"), pool)
			}
			return strconv.Itoa(int(*a.Prefix)), nil
		}},
		{"gatewaysFromPool", data.GatewaysFromPool, func(_ *field.Path, _ string, a Address) (string, *field.Error) {
			return a.Gateway, nil
		}},
		{"dnsServersFromPool", data.DNSServersFromPool, func(_ *field.Path, _ string, a Address) (string, *field.Error) {
			return strings.Join(a.DNSServers, ","), nil
		}},
	}
}

func interfaceMAC(path *field.Path, e infrav1.MetaDataHostInterface, subject Subject) (string, *field.Error) {
	if !ptr.Deref(e.FromBootMAC, false) {
		return subject.mac(path.Child("interface"), e.Interface)
	}
	if subject.Host.Spec.BootMACAddress == "" {
		return "", field.Invalid(path.Child("fromBootMAC"), true, "finds no address, because BareMetalHost "+
			subject.Host.Name+" has no spec.bootMACAddress; set it")
	}
	return subject.Host.Spec.BootMACAddress, nil
}

// indexValue returns prefix + (offset + index * step) + suffix. A step of 0 counts as 1.
func indexValue(e infrav1.MetaDataIndex, index int32) string {
	step := int64(e.Step)
	if step == 0 {
		step = 1
	}
	return e.Prefix + strconv.FormatInt(int64(e.Offset)+int64(index)*step, 10) + e.Suffix
}

func noAddress(path *field.Path, pool string) *field.Error {
	return field.Invalid(path, pool, "has no address for the machine; claim one first")
}

// anotherAddress is the end of a remedy that corrects a pool.
const anotherAddress = ", then delete the Machine, because an allocated address does not change"

func noPrefix(path *field.Path, pool string) *field.Error {
	return field.Invalid(path, pool, "allocated an address without a prefix; set the prefix of the pool"+anotherAddress)
}

func noSpace(path *field.Path, size int) *field.Error {
	err := field.TooLong(path, nil, corev1.MaxSecretSize)
	err.Detail = fmt.Sprintf("has %d bytes, and with the entries before it more than the %d bytes of a Secret; shorten "+
		"the value, or use it in fewer entries of a new Metal3DataTemplate", size, corev1.MaxSecretSize)
	return err
}
