package plugin

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Environment variables and the flag that configure BMO.
const (
	endpointVariable        = "IRONIC_ENDPOINT"
	ironicNameVariable      = "IRONIC_NAME"
	ironicNamespaceVariable = "IRONIC_NAMESPACE"
	watchVariable           = "WATCH_NAMESPACE"
	watchFlag               = "namespace"
)

// ironicUse is the Ironic that a BMO uses, as far as its Deployment shows it.
type ironicUse struct {
	// endpoint is a URL with scheme, host and port, or the name of an Ironic object. Empty if unknown.
	endpoint string

	// own means that the Ironic runs in the cluster of this BMO: an Ironic object, a Service, or the loopback interface.
	own bool

	// unknown is the reason why the Ironic is not known. Empty if it is known.
	unknown string
}

// String returns the Ironic, or the reason why it is not known.
func (u ironicUse) String() string {
	switch {
	case u.unknown != "":
		return "not known: " + u.unknown
	case u.own:
		return u.endpoint + " in its own cluster"
	default:
		return u.endpoint
	}
}

// settings are the sources of the environment of the containers of a Deployment.
type settings struct {
	// namespace is that of the Deployment.
	namespace string

	// maps are the ConfigMaps that the containers name. One that does not exist is missing.
	maps map[string]map[string]string

	// unreadable are the ConfigMaps that the user may not read.
	unreadable map[string]bool
}

// variable is the value of an environment variable, or why it is not known.
type variable struct{ value, unknown string }

// variableOf returns an environment variable of a container. The first row that matches counts.
//
//	variable                                   value
//	in env with a value                        the value; not known if it refers to another variable
//	in env, from a ConfigMap                   that of the key
//	in env, from the namespace of the pod      the namespace
//	in env, from anything else                 not known: the content of Secrets is not read
//	in envFrom                                 that of the last source that has it; not known if a Secret comes after
//	nowhere                                    empty
func (s settings) variableOf(container *corev1.Container, name string) variable {
	// The last entry of a name counts.
	for _, entry := range slices.Backward(container.Env) {
		if entry.Name == name {
			return s.entryOf(entry)
		}
	}
	for _, from := range slices.Backward(container.EnvFrom) {
		key, fits := strings.CutPrefix(name, from.Prefix)
		switch {
		case !fits:
		case from.SecretRef != nil:
			return variable{unknown: fmt.Sprintf("Secret %s may set %s, and its content is not read", from.SecretRef.Name, name)}
		case from.ConfigMapRef != nil:
			if found, sets := s.keyOf(from.ConfigMapRef.Name, key, name); sets {
				return found
			}
		}
	}
	return variable{}
}

// entryOf is the value of one entry of env.
func (s settings) entryOf(entry corev1.EnvVar) variable {
	from := entry.ValueFrom
	switch {
	case from == nil && strings.Contains(entry.Value, "$("):
		return variable{unknown: entry.Name + " refers to another variable"}
	case from == nil:
		return variable{value: entry.Value}
	case from.ConfigMapKeyRef != nil:
		found, _ := s.keyOf(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, entry.Name)
		return found
	case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace":
		return variable{value: s.namespace}
	default:
		return variable{unknown: entry.Name + " does not come from a ConfigMap"}
	}
}

// keyOf is the value of a key of a ConfigMap, and whether the ConfigMap has it or may have it.
func (s settings) keyOf(name, key, sets string) (variable, bool) {
	if s.unreadable[name] {
		why := fmt.Sprintf("ConfigMap %s/%s may set %s, and you may not read it", s.namespace, name, sets)
		return variable{unknown: why}, true
	}
	value, exists := s.maps[name][key]
	return variable{value: value}, exists
}

// ironicOf returns the Ironic that BMO uses. BMO reads its environment when it starts. The first row that matches
// counts.
//
//	variable of a container              Ironic
//	IRONIC_NAME                          that object, in IRONIC_NAMESPACE or the namespace of the Deployment
//	IRONIC_ENDPOINT                      that URL
//	neither, in no container             not known
func (s settings) ironicOf(deployment *appsv1.Deployment) ironicUse {
	why := fmt.Sprintf("the Deployment sets neither %s nor %s", endpointVariable, ironicNameVariable)
	for i := range deployment.Spec.Template.Spec.Containers {
		container := &deployment.Spec.Template.Spec.Containers[i]
		name, place := s.variableOf(container, ironicNameVariable), s.variableOf(container, ironicNamespaceVariable)
		endpoint := s.variableOf(container, endpointVariable)
		switch {
		case name.value != "":
			if place.value == "" {
				place.value = deployment.Namespace
			}
			return ironicUse{endpoint: fmt.Sprintf("Ironic %s/%s", place.value, name.value), own: true}
		case endpoint.value != "":
			return endpointIn(endpoint.value)
		case endpoint.unknown != "":
			why = endpoint.unknown
		}
	}
	return ironicUse{unknown: why}
}

// endpointIn parses a URL. It omits the path and the password.
func endpointIn(text string) ironicUse {
	ports := map[string]string{"http": "80", "https": "443"}
	// The error of url.Parse contains the URL, which may have a password.
	parsed, err := url.Parse(text)
	if err != nil || ports[strings.ToLower(parsed.Scheme)] == "" || parsed.Hostname() == "" {
		return ironicUse{unknown: endpointVariable + " is no URL with http or https"}
	}
	host, port, scheme := strings.ToLower(parsed.Hostname()), parsed.Port(), strings.ToLower(parsed.Scheme)
	if port == "" {
		port = ports[scheme]
	}
	address, err := netip.ParseAddr(host)
	if err == nil {
		host = address.Unmap().String()
	}
	own := host == "localhost" || address.IsLoopback() || err != nil && isService(host)
	return ironicUse{endpoint: scheme + "://" + net.JoinHostPort(host, port), own: own}
}

// isService returns true for a name that only resolves in the cluster itself.
func isService(host string) bool {
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".svc") || strings.Contains(host, ".svc.")
}

// watches returns true if BMO manages the hosts of a namespace: the flag, or else the variable, has the namespaces.
// Without them, or if they are not known, BMO manages all.
func (s settings) watches(deployment *appsv1.Deployment, namespace string) bool {
	for i := range deployment.Spec.Template.Spec.Containers {
		container := &deployment.Spec.Template.Spec.Containers[i]
		watched := s.variableOf(container, watchVariable).value
		arguments := slices.Concat(container.Command, container.Args)
		for j, argument := range arguments {
			flag, value, joined := strings.Cut(argument, "=")
			if strings.TrimLeft(flag, "-") != watchFlag || !strings.HasPrefix(flag, "-") {
				continue
			}
			if !joined && j+1 < len(arguments) {
				value = arguments[j+1]
			}
			watched = value
		}
		if watched != "" {
			return slices.Contains(strings.Split(watched, ","), namespace)
		}
	}
	return true
}

// mapsOf returns the names of the ConfigMaps in the environment of the containers of a Deployment.
func mapsOf(deployment *appsv1.Deployment) []string {
	var names []string
	for i := range deployment.Spec.Template.Spec.Containers {
		container := &deployment.Spec.Template.Spec.Containers[i]
		for _, entry := range container.Env {
			if entry.ValueFrom != nil && entry.ValueFrom.ConfigMapKeyRef != nil {
				names = append(names, entry.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
		for _, from := range container.EnvFrom {
			if from.ConfigMapRef != nil {
				names = append(names, from.ConfigMapRef.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// endpointsOf are the Ironic endpoints of a Metal3Cluster, as a BMO would use them. Empty without spec.ironic.
func endpointsOf(infra *infrav1.Metal3Cluster) []string {
	if infra.Spec.Ironic == nil {
		return nil
	}
	port := infra.Spec.Ironic.Endpoint.Port
	if port == 0 {
		port = infrav1.DefaultIronicPort
	}
	var endpoints []string
	for _, address := range infra.Spec.Ironic.Endpoint.VirtualIPs {
		endpoints = append(endpoints, endpointIn("https://"+net.JoinHostPort(address, strconv.Itoa(int(port)))).endpoint)
	}
	return endpoints
}

// serving are the Metal3Clusters whose Ironic endpoint serves the hosts of a namespace: BMO has one Ironic for all
// namespaces. The first row that matches counts.
//
//	Metal3Clusters with spec.ironic              serve the namespace
//	in the namespace                             these
//	in other namespaces, of one clusterID        these
//	in other namespaces, of several clusterIDs   not known: each has a BMO of its own
func serving(infras []*infrav1.Metal3Cluster, namespace string) []*infrav1.Metal3Cluster {
	var local, elsewhere []*infrav1.Metal3Cluster
	identities := map[string]bool{}
	for _, infra := range infras {
		switch {
		case infra.Spec.Ironic == nil:
		case infra.Namespace == namespace:
			local = append(local, infra)
		default:
			elsewhere = append(elsewhere, infra)
			identities[infra.Spec.Ironic.ClusterID] = true
		}
	}
	switch {
	case len(local) > 0:
		return local
	case len(identities) == 1:
		return elsewhere
	default:
		return nil
	}
}
