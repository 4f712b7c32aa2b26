package pivot

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// obstaclesShown is how many obstacles a message names. The others are counted.
const obstaclesShown = 8

// hostKind is what a BareMetalHost is called in obstacles.
const hostKind = "BareMetalHost"

// Obstacle is one thing that is in the way of a move or of a handover.
type Obstacle struct {
	// Code says what it is. Codes do not change, so that a script may compare them.
	Code Code `json:"code"`

	// Kind, Namespace and Name are those of the object. Namespace is empty for an object without one, and all are empty
	// if no object is in the way.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`

	// Message names the object and says what is wrong with it.
	Message string `json:"message"`

	// Remedy is what to do. Empty if Message quotes a condition, which names the remedy.
	Remedy string `json:"remedy,omitempty"`
}

// String returns the message with the remedy.
func (o Obstacle) String() string {
	if o.Remedy == "" {
		return o.Message
	}
	return o.Message + ": " + o.Remedy
}

// Subject is the object that an obstacle is about.
type Subject struct{ kind, namespace, name string }

// About returns an object as the subject of obstacles.
func About(kind string, object metav1.Object) Subject {
	return Subject{kind, object.GetNamespace(), object.GetName()}
}

// AboutNamed returns the subject of a kind, namespace and name.
func AboutNamed(kind, namespace, name string) Subject { return Subject{kind, namespace, name} }

// AboutNothing returns the subject of an obstacle without an object.
func AboutNothing() Subject { return Subject{} }

// Blocks returns an obstacle. The format and its values make the message.
func (s Subject) Blocks(code Code, remedy, format string, values ...any) Obstacle {
	return Obstacle{
		Code: code, Kind: s.kind, Namespace: s.namespace, Name: s.name,
		Message: fmt.Sprintf(format, values...), Remedy: remedy,
	}
}

// Enumerate joins obstacles, or names, to one line, which does not grow with the number of hosts.
func Enumerate[T any](items []T) string {
	texts := make([]string, 0, obstaclesShown)
	for _, item := range items[:min(len(items), obstaclesShown)] {
		texts = append(texts, fmt.Sprint(item))
	}
	line := strings.Join(texts, "; ")
	if hidden := len(items) - len(texts); hidden > 0 {
		line += fmt.Sprintf("; and %d more", hidden)
	}
	return line
}
