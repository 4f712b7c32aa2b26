package move_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// nudges are the times at which the manager writes the holder annotation on hosts. This is the only step of the
// provider after a change of the VIP holder. BMO and Ironic do the other steps.
type nudges struct {
	mutex sync.Mutex
	// at has the times by the names of the hosts.
	at map[string]time.Time
}

// nudges starts to record when hosts get the annotation of a holder.
func (w *world) nudges(ctx context.Context, holder string) *nudges {
	GinkgoHelper()
	stream := w.here.watch(ctx, w.namespace, &bmov1alpha1.BareMetalHostList{})
	n := &nudges{at: map[string]time.Time{}}
	go func() {
		for event := range stream.ResultChan() {
			n.note(event, holder)
		}
	}()
	return n
}

func (n *nudges) note(event watch.Event, holder string) {
	host, isHost := event.Object.(*bmov1alpha1.BareMetalHost)
	if !isHost || host.Annotations[infrav1.IronicHolderAnnotation] != holder {
		return
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if _, known := n.at[host.Name]; !known {
		n.at[host.Name] = time.Now()
	}
}

// all waits until a number of hosts have the annotation, and returns the times.
func (n *nudges) all(count int) map[string]time.Time {
	GinkgoHelper()
	read := func() map[string]time.Time {
		n.mutex.Lock()
		defer n.mutex.Unlock()
		return maps.Clone(n.at)
	}
	Eventually(read).WithTimeout(4 * patience).Should(HaveLen(count))
	return read()
}

// nudged returns when each wave of hosts got the annotation, and the time until the first request of BMO.
func nudged(told, looked map[string]time.Time, began time.Time) []row {
	first := slices.MinFunc(slices.Collect(maps.Values(told)), time.Time.Compare).Sub(began)
	all := []row{timed("  of this, until the first host is told of it", first, 0)}
	waves := map[time.Duration]time.Duration{}
	var longest time.Duration
	for place, host := range slices.Sorted(maps.Keys(told)) {
		due := pivot.WaveDelay(place)
		waves[due] = max(waves[due], told[host].Sub(began))
		longest = max(longest, looked[host].Sub(told[host]))
	}
	for number, due := range slices.Sorted(maps.Keys(waves)) {
		all = append(all, timed(fmt.Sprintf("  until the last one of wave %d is told, due %s after the first", number+1, due),
			waves[due], 0))
	}
	return append(all, timed("  from telling a host to the first look at it, at most", longest, 0))
}
