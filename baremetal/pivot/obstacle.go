package pivot

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// obstaclesShown is the number of obstacles that a message names. It counts the others.
const obstaclesShown = 8

// hostKind is the name of a BareMetalHost in obstacles.
const hostKind = "BareMetalHost"

// Obstacle prevents a move or a handover.
type Obstacle struct {
	// Code identifies the kind of the obstacle. Codes are stable, so that scripts can compare them.
	Code Code `json:"code"`

	// Kind, Namespace and Name identify the object. Namespace is empty for a cluster-scoped object, and all are empty
	// for an obstacle without an object.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`

	// Message names the object and the problem.
	Message string `json:"message"`

	// Remedy is the action that removes the obstacle. Empty if Message quotes a condition, which names the remedy.
	Remedy string `json:"remedy,omitempty"`
}

// String returns the message with the remedy.
func (o Obstacle) String() string {
	if o.Remedy == "" {
		return o.Message
	}
	return o.Message + ": " + o.Remedy
}

// Subject is the object of an obstacle.
type Subject struct{ kind, namespace, name string }

// About returns an object as the subject of obstacles.
func About(kind string, object metav1.Object) Subject {
	return Subject{kind, object.GetNamespace(), object.GetName()}
}

// AboutNamed returns the subject of a kind, namespace and name.
func AboutNamed(kind, namespace, name string) Subject { return Subject{kind, namespace, name} }

// AboutNothing returns the subject of an obstacle without an object.
func AboutNothing() Subject { return Subject{} }

// Blocks returns an obstacle. The format and its values are the message.
func (s Subject) Blocks(code Code, remedy, format string, values ...any) Obstacle {
	return Obstacle{
		Code: code, Kind: s.kind, Namespace: s.namespace, Name: s.name,
		Message: fmt.Sprintf(format, values...), Remedy: remedy,
	}
}

// Enumerate joins obstacles or names to one line of limited length.
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
