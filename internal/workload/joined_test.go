package workload_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

func TestJoined(t *testing.T) {
	machine := time.Unix(1_700_000_000, 0)
	at := func(offset time.Duration, hostUID string) client.Object {
		joined := node("node", "", hostUID, "host-0")
		joined.CreationTimestamp = metav1.NewTime(machine.Add(offset))
		return joined
	}
	both := workload.Query{HostUID: "uid-0", Hostname: "host-0"}
	moved := workload.Query{HostUID: "uid-0", OriginUID: "uid-9"}
	for name, tc := range map[string]struct {
		reason string
		node   client.Object
		query  workload.Query
		want   bool
	}{
		"ByUID":         {"the label has the UID", at(time.Minute, "uid-0"), workload.Query{HostUID: "uid-0"}, true},
		"ByHostname":    {"the label is optional", at(time.Minute, ""), both, true},
		"AtOnce":        {"timestamps have a resolution of a second", at(0, "uid-0"), both, true},
		"Older":         {"it belongs to an earlier machine", at(-time.Second, "uid-0"), both, false},
		"OlderByName":   {"it belongs to an earlier machine", at(-time.Second, ""), both, false},
		"OfAnotherHost": {"two hosts have the same host name", at(time.Minute, "uid-1"), both, false},
		"Moved":         {"the label has the UID in the source", at(time.Minute, "uid-9"), moved, true},
		"MovedOlder":    {"it belongs to an earlier machine", at(-time.Second, "uid-9"), moved, false},
		"EmptyQuery":    {"it matches no node", at(time.Minute, "uid-0"), workload.Query{}, false},
	} {
		nodes, _ := world(interceptor.Funcs{}, tc.node)
		if got, err := nodes.Joined(t.Context(), cluster(), tc.query, machine); err != nil || got != tc.want {
			t.Errorf("%s: %s: got %t, %v", name, tc.reason, got, err)
		}
	}
}

func TestJoinedReportsErrors(t *testing.T) {
	broken, _ := world(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errBroken
		},
	})
	query := workload.Query{HostUID: "uid"}
	if _, err := broken.Joined(t.Context(), cluster(), query, time.Time{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	other := types.NamespacedName{Namespace: "x", Name: "y"}
	if _, err := broken.Joined(t.Context(), other, query, time.Time{}); !errors.Is(err, workload.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}
