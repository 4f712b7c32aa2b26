package hoststore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// server is an API server for hosts. The caches read the history of their changes.
type server struct {
	client.Client

	mu      sync.Mutex
	history []change
}

// change is one version of a host. Gone means that it was deleted.
type change struct {
	host *bmov1alpha1.BareMetalHost
	gone bool
}

func newServer(hosts ...*bmov1alpha1.BareMetalHost) *server {
	scheme := runtime.NewScheme()
	must(bmov1alpha1.AddToScheme(scheme))
	// The default tracker manages field ownership, which takes most of the time of a write.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	s := &server{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).Build()}
	for _, h := range hosts {
		s.create(h)
	}
	return s
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (s *server) create(h *bmov1alpha1.BareMetalHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	must(s.Create(context.Background(), h))
	s.history = append(s.history, change{host: h.DeepCopy()})
}

// patch writes and records the new version in one step, as etcd does.
func (s *server) patch(ctx context.Context, h *bmov1alpha1.BareMetalHost, patch client.Patch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Patch(ctx, h, patch); err != nil {
		return err
	}
	s.history = append(s.history, change{host: h.DeepCopy()})
	return nil
}

// edit changes a host as another client does.
func (s *server) edit(name string, edit func(*bmov1alpha1.BareMetalHost)) {
	h := s.host(name)
	before := h.DeepCopy()
	edit(h)
	must(s.patch(context.Background(), h, client.MergeFrom(before)))
}

// remove deletes host-0.
func (s *server) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.host("host-0")
	must(s.Delete(context.Background(), h))
	s.history = append(s.history, change{host: h, gone: true})
}

func (s *server) host(name string) *bmov1alpha1.BareMetalHost {
	h := &bmov1alpha1.BareMetalHost{}
	must(s.Get(context.Background(), client.ObjectKey{Namespace: build.DefaultNamespace, Name: name}, h))
	return h
}

// next returns the change at a position of the history, and false at its end.
func (s *server) next(position int) (change, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if position >= len(s.history) {
		return change{}, false
	}
	return s.history[position], true
}

// process is one process of the provider: a store, and a cache that lags behind the server until step or sync.
type process struct {
	client.Client
	server   *server
	store    *hoststore.Store
	informer *controllertest.FakeInformer
	enqueued <-chan event.GenericEvent

	// fail runs before each write. Its error fails the write.
	fail func(h *bmov1alpha1.BareMetalHost) error
	// lose runs after each successful write. Its error replaces the response.
	lose func(h *bmov1alpha1.BareMetalHost) error
	// offline fails every live read.
	offline error
	// beforeGet runs before each cached read of one host.
	beforeGet func()
	// liveReads counts the live reads, lists the cached lists.
	liveReads, lists int

	mu       sync.Mutex
	hosts    map[client.ObjectKey]*bmov1alpha1.BareMetalHost
	position int
}

// newProcess starts a process with a cache at a position of the history.
func newProcess(s *server, position int) *process {
	p := &process{
		server: s,
		fail:   func(*bmov1alpha1.BareMetalHost) error { return nil },
		lose:   func(*bmov1alpha1.BareMetalHost) error { return nil },
		hosts:  map[client.ObjectKey]*bmov1alpha1.BareMetalHost{},

		beforeGet: func() {},
	}
	p.store = hoststore.New(p, liveReader{Reader: s, process: p})
	informers := &informertest.FakeInformers{Scheme: build.SharedScheme()}
	enqueued, err := p.store.Watch(context.Background(), informers)
	must(err)
	p.enqueued = enqueued
	p.informer, err = informers.FakeInformerFor(context.Background(), &bmov1alpha1.BareMetalHost{})
	must(err)
	for p.position < position && p.step() {
		continue
	}
	return p
}

type liveReader struct {
	client.Reader
	process *process
}

func (r liveReader) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	r.process.liveReads++
	if r.process.offline != nil {
		return r.process.offline
	}
	return r.Reader.Get(ctx, key, object, options...)
}

// step delivers one more change to the cache. It returns false at the end of the history.
func (p *process) step() bool {
	seen, more := p.server.next(p.position)
	if !more {
		return false
	}
	p.position++
	key := client.ObjectKeyFromObject(seen.host)
	p.mu.Lock()
	before := p.hosts[key]
	if seen.gone {
		delete(p.hosts, key)
	} else {
		p.hosts[key] = seen.host
	}
	p.mu.Unlock()
	switch {
	case seen.gone:
		p.informer.Delete(seen.host)
	case before == nil:
		p.informer.Add(seen.host)
	default:
		p.informer.Update(before, seen.host)
	}
	return true
}

// sync delivers all changes to the cache.
func (p *process) sync() {
	for p.step() {
		continue
	}
}

// requests returns the machines that were enqueued since the last call.
func (p *process) requests() []string {
	var names []string
	for {
		select {
		case e := <-p.enqueued:
			names = append(names, e.Object.GetName())
		default:
			return names
		}
	}
}

// Get reads from the cache.
func (p *process) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	p.beforeGet()
	p.mu.Lock()
	defer p.mu.Unlock()
	found, exists := p.hosts[key]
	if !exists {
		return apierrors.NewNotFound(hostResource(), key.Name)
	}
	found.DeepCopyInto(asHost(object))
	return nil
}

// List reads from the cache, through the indexes of the store. Hosts come in a different order each time.
func (p *process) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	selected := (&client.ListOptions{}).ApplyOptions(options)
	hosts, isHosts := list.(*bmov1alpha1.BareMetalHostList)
	if !isHosts {
		return fmt.Errorf("%T is no list of hosts", list)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists++
	for _, h := range p.hosts {
		if selected.Namespace != "" && h.Namespace != selected.Namespace || !indexed(h, selected) {
			continue
		}
		hosts.Items = append(hosts.Items, *h)
	}
	return nil
}

func indexed(h *bmov1alpha1.BareMetalHost, selected *client.ListOptions) bool {
	if selected.FieldSelector == nil {
		return true
	}
	for _, requirement := range selected.FieldSelector.Requirements() {
		if !slices.Contains(hoststore.Indexes()[requirement.Field](h), requirement.Value) {
			return false
		}
	}
	return true
}

// Patch writes to the server.
func (p *process) Patch(ctx context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	answer, isPartial := object.(*metav1.PartialObjectMetadata)
	if !isPartial {
		panic(fmt.Sprintf("%T is not the metadata of a host", object))
	}
	h := &bmov1alpha1.BareMetalHost{}
	if err := p.server.Get(ctx, client.ObjectKeyFromObject(answer), h); err != nil {
		return err
	}
	changes, err := patch.Data(h)
	if err != nil {
		return err
	}
	desired := h.DeepCopy()
	if err := json.Unmarshal(changes, desired); err != nil {
		return err
	}
	if err := p.fail(desired); err != nil {
		return err
	}
	if err := p.server.patch(ctx, h, patch); err != nil {
		return err
	}
	answer.ObjectMeta = h.ObjectMeta
	return p.lose(h)
}

func asHost(object client.Object) *bmov1alpha1.BareMetalHost {
	h, isHost := object.(*bmov1alpha1.BareMetalHost)
	if !isHost {
		panic(fmt.Sprintf("%T is no host", object))
	}
	return h
}

func hostResource() schema.GroupResource {
	return bmov1alpha1.GroupVersion.WithResource("baremetalhosts").GroupResource()
}

func internalError() error { return apierrors.NewInternalError(context.DeadlineExceeded) }

func timeout() error { return apierrors.NewTimeoutError("no answer", 1) }

func key(name string) hoststore.Key {
	return hoststore.Key{Namespace: build.DefaultNamespace, Name: name}
}

func wants(machine string, changes ...func(*host.Wanted)) host.Wanted {
	wanted := host.Wanted{Machine: machine, Namespace: build.DefaultNamespace, Cluster: "cluster-0"}
	for _, change := range changes {
		change(&wanted)
	}
	return wanted
}

func claimOf(machine string) host.Claim {
	return host.Claim{Machine: machine, Namespace: build.DefaultNamespace, Cluster: "cluster-0"}
}

// choose chooses a host and returns its name, empty for none.
func (p *process) choose(t *testing.T, wanted host.Wanted) *bmov1alpha1.BareMetalHost {
	t.Helper()
	choice, err := p.store.Choose(context.Background(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	return choice.Host
}

// claim writes the claim of a machine on a host that was chosen for it.
func (p *process) claim(chosen *bmov1alpha1.BareMetalHost, machine string) (*bmov1alpha1.BareMetalHost, error) {
	return p.store.Write(context.Background(), chosen, host.Desired(chosen, claimOf(machine)))
}

// holding returns the name of the host that a machine holds, and those of its surplus.
func (p *process) holding(t *testing.T, machine, hint string) (held string, surplus []string) {
	t.Helper()
	holdings, err := p.store.Holdings(context.Background(), key(machine), hint)
	if err != nil {
		t.Fatal(err)
	}
	if holdings.Host != nil {
		held = holdings.Host.Name
	}
	for _, h := range holdings.Surplus {
		surplus = append(surplus, h.Name)
	}
	slices.SortFunc(surplus, strings.Compare)
	return held, surplus
}

// settle ends the turn of a machine.
func (p *process) settle(machine string, waits bool) {
	p.store.Settle(context.Background(), key(machine), waits)
}

func available(name string, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
	return build.Host(name, append([]build.HostOption{build.Available()}, options...)...)
}

// manualClock runs the functions of AfterFunc in run, without a lock.
type manualClock struct {
	*clocktesting.FakeClock
	timers []timer
}

type timer struct {
	at  time.Time
	run func()
}

func newManualClock() *manualClock {
	return &manualClock{FakeClock: clocktesting.NewFakeClock(time.Now())}
}

// AfterFunc implements clock.WithDelayedExecution. It returns no timer.
func (c *manualClock) AfterFunc(after time.Duration, run func()) clock.Timer {
	c.timers = append(c.timers, timer{at: c.Now().Add(after), run: run})
	return nil
}

// run lets time pass.
func (c *manualClock) run(span time.Duration) {
	c.Step(span)
	timers := c.timers
	c.timers = nil
	for _, next := range timers {
		if next.at.After(c.Now()) {
			c.timers = append(c.timers, next)
		} else {
			next.run()
		}
	}
}
