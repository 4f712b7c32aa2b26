package hoststore

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestRefusalsShareTheirTexts refuses the claims of all machines on all hosts, with an error of 1 KiB for each host.
func TestRefusalsShareTheirTexts(t *testing.T) {
	const count, limit = 200, 10 << 20
	heap := func() uint64 {
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		return memory.HeapAlloc
	}
	cache, before := newAssumeCache(), heap()
	for h := range count {
		current := build.Host(fmt.Sprintf("host-%d", h))
		for m := range count {
			machine := Key{Namespace: current.Namespace, Name: fmt.Sprintf("machine-%d", m)}
			cache.assume(client.ObjectKeyFromObject(current), machine)
			claim := host.Desired(current, host.Claim{Machine: machine.Name, Namespace: machine.Namespace, Cluster: "cluster"})
			cause := errors.New(current.Name + strings.Repeat(" no", 340))
			if !cache.refuse(current, claim, cause) || cache.candidate(current, machine).Refused != cause.Error() {
				t.Fatalf("%s does not refuse %s", current.Name, machine.Name)
			}
		}
	}
	if used := heap() - before; used > limit {
		t.Errorf("%d refusals use %d bytes, want at most %d", count*count, used, limit)
	}
	runtime.KeepAlive(cache)
}
