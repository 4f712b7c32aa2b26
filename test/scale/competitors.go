package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// Consumers that are not machines.
const (
	competitorVersion = "example.com/v1"
	competitorKind    = "Competitor"
)

// contest are other clients that claim hosts. Each writes with the resource version of the first read. Together they
// claim a third of all hosts.
type contest struct {
	clients []client.Client
	hosts   []bmov1alpha1.BareMetalHost

	// quota is the number of hosts for each client.
	quota int

	mu sync.Mutex
	// claims has the competitor of each claimed host.
	claims map[string]string
	// refused is the number of writes with a conflict.
	refused int
	// took is the duration until the last claim.
	took time.Duration
}

func newContest(server *env.Server, competitors int, hosts map[string]bmov1alpha1.BareMetalHost) (*contest, error) {
	created := &contest{claims: map[string]string{}}
	if competitors == 0 {
		return created, nil
	}
	created.quota = len(hosts) / 3 / competitors
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		created.hosts = append(created.hosts, hosts[name])
	}
	for range competitors {
		c, err := client.New(rest.CopyConfig(server.Config), client.Options{Scheme: build.Scheme()})
		if err != nil {
			return nil, fmt.Errorf("creating a competitor: %w", err)
		}
		created.clients = append(created.clients, c)
	}
	return created, nil
}

// run lets all clients claim hosts at once. Pairs of clients begin with the same host, so that they conflict too.
func (c *contest) run(ctx context.Context) error {
	start := time.Now()
	var work errgroup.Group
	for i, writer := range c.clients {
		first := i / 2 * 2 * len(c.hosts) / len(c.clients)
		work.Go(func() error { return c.claim(ctx, writer, fmt.Sprintf("competitor-%d", i), first) })
	}
	err := work.Wait()
	c.took = time.Since(start)
	return err
}

func (c *contest) claim(ctx context.Context, writer client.Client, name string, first int) error {
	claimed := 0
	for i := range c.hosts {
		if claimed == c.quota {
			return nil
		}
		host := &c.hosts[(first+i)%len(c.hosts)]
		desired := host.DeepCopy()
		desired.Spec.ConsumerRef = &corev1.ObjectReference{
			APIVersion: competitorVersion, Kind: competitorKind, Namespace: desired.Namespace, Name: name,
		}
		lock := client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{})
		err := writer.Patch(ctx, desired, lock)
		switch {
		case err == nil:
			claimed++
			c.note(desired.Name, name)
		case apierrors.IsConflict(err):
			c.note("", "")
		default:
			return fmt.Errorf("claiming host %s for %s: %w", desired.Name, name, err)
		}
	}
	return nil
}

func (c *contest) note(host, by string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if host == "" {
		c.refused++
		return
	}
	c.claims[host] = by
}
