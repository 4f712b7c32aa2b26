package hostdata

import (
	"fmt"
	"regexp"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// macFormat describes a MAC address in messages.
const macFormat = "six pairs of hexadecimal digits, such as 52:54:00:12:34:56"

// macPattern matches macFormat.
var macPattern = regexp.MustCompile(`^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$`)

// Subject is the machine that data is rendered for. All fields are required.
type Subject struct {
	Machine       *clusterv1.Machine
	Metal3Machine *infrav1.Metal3Machine
	Host          *bmov1alpha1.BareMetalHost

	// Index of the machine in its template.
	Index int32
}

// object returns the object for a source of a template. Nil for a source that the schema does not allow.
func (s Subject) object(source infrav1.SourceObject) metav1.Object {
	switch source {
	case infrav1.SourceMachine:
		return s.Machine
	case infrav1.SourceMetal3Machine:
		return s.Metal3Machine
	case infrav1.SourceBareMetalHost:
		return s.Host
	default:
		return nil
	}
}

// annotated returns the value of an annotation. A missing annotation is an error.
func (s Subject) annotated(path *field.Path, from *infrav1.AnnotationSource) (string, *field.Error) {
	object := s.object(from.Object)
	if object == nil {
		return "", unknownObject(path.Child("object"), from.Object)
	}
	value := object.GetAnnotations()[from.Annotation]
	if value == "" {
		return "", field.Invalid(path.Child("annotation"), from.Annotation,
			"is missing on "+kindOf(from.Object)+" "+object.GetName()+"; set the annotation")
	}
	return value, nil
}

// mac returns the MAC address of a network interface of the host.
func (s Subject) mac(path *field.Path, name string) (string, *field.Error) {
	if details := s.Host.Status.HardwareDetails; details != nil {
		for _, nic := range details.NIC {
			if nic.Name == name {
				return nic.MAC, nil
			}
		}
		return "", field.Invalid(path, name, "is not a network interface of BareMetalHost "+s.Host.Name+
			"; name one of its status.hardware.nics in a new Metal3DataTemplate, or inspect the host again")
	}
	return "", field.Invalid(path, name, "cannot be looked up, because BareMetalHost "+s.Host.Name+
		" has no status.hardware; inspect the host")
}

// ethernet returns the MAC address of the host interface of an Ethernet link.
func (s Subject) ethernet(path *field.Path, name string) (string, *field.Error) {
	address, err := s.mac(path, name)
	if err == nil && !macPattern.MatchString(address) {
		err = field.Invalid(path, name, fmt.Sprintf("has the MAC address %q on BareMetalHost %s, which is not one of "+
			"Ethernet; name another interface in a new Metal3DataTemplate, or inspect the host again", address, s.Host.Name))
	}
	return address, err
}

// annotatedMAC returns the MAC address in an annotation.
func (s Subject) annotatedMAC(path *field.Path, from *infrav1.AnnotationSource) (string, *field.Error) {
	address, err := s.annotated(path, from)
	if err == nil && !macPattern.MatchString(address) {
		err = field.Invalid(path.Child("annotation"), from.Annotation, fmt.Sprintf("has the value %q on %s %s, which is "+
			"not a MAC address; set the annotation to "+macFormat, address, kindOf(from.Object),
			s.object(from.Object).GetName()))
	}
	return address, err
}

func unknownObject(path *field.Path, source infrav1.SourceObject) *field.Error {
	return field.NotSupported(path, source, []infrav1.SourceObject{
		infrav1.SourceMachine, infrav1.SourceMetal3Machine, infrav1.SourceBareMetalHost,
	})
}

// kindOf returns the kind of the object for a message.
func kindOf(source infrav1.SourceObject) string {
	switch source {
	case infrav1.SourceMachine:
		return "Machine"
	case infrav1.SourceMetal3Machine:
		return "Metal3Machine"
	default:
		return "BareMetalHost"
	}
}
