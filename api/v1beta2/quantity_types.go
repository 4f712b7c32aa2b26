package v1beta2

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxQuantity and quantityPattern are the length and the pattern in the schema of a Quantity.
const maxQuantity = 32

var quantityPattern = regexp.MustCompile(
	`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`)

// Quantity is an amount of a resource as in Kubernetes, for example 250m or 1Gi.
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
type Quantity string

// UnmarshalJSON reads a text or a number. It parses neither: a watch ends at an object that it cannot decode, and the
// API server decodes the objects of a request before it validates them.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		return json.Unmarshal(data, (*string)(q))
	}
	return json.Unmarshal(data, (*json.Number)(q))
}

// Parse returns the amount. It returns an error for a text that the schema refuses: the parser of Kubernetes takes
// minutes and hundreds of MiB for 1e-999999999.
func (q Quantity) Parse() (resource.Quantity, error) {
	if len(q) > maxQuantity || !quantityPattern.MatchString(string(q)) {
		return resource.Quantity{}, fmt.Errorf("is not a quantity of at most %d characters with an exponent of at most two "+
			"digits; write it like 250m or 1Gi", maxQuantity)
	}
	return resource.ParseQuantity(string(q))
}
