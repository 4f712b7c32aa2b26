package stage

import (
	"context"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Write is one write of a manager.
type Write struct {
	// Verb is create, patch, update or delete, followed by the name of a subresource: "patch status".
	Verb string

	// Kind and Name of the object.
	Kind, Name string
}

// String returns verb and kind, such as "patch status Metal3Machine".
func (w Write) String() string { return w.Verb + " " + w.Kind }

// Verdict decides about a write. The zero value accepts it.
type Verdict struct {
	// Err is the response to the client. Nil means the response of the API server.
	Err error

	// Lost sends the write although Err is returned, as when a connection breaks before the response.
	Lost bool
}

// Writes counts and judges the writes of managers, and remembers their reads. It may serve several managers, one after
// another.
type Writes struct {
	mutex sync.Mutex
	judge func(Write) Verdict
	done  []Write
	// read are the names of the objects that managers have read.
	read map[string]bool

	// underWay is locked for reading from before a write reaches the API server until it is counted.
	underWay sync.RWMutex
}

// Judge sets the function that decides about the writes from now on. Nil accepts all. The function is called by one
// goroutine at a time.
func (w *Writes) Judge(judge func(Write) Verdict) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.judge = judge
}

// Done returns the writes that the API server has accepted. It waits for writes in progress, so that it includes each
// write whose effect a reader has seen.
func (w *Writes) Done() []Write {
	w.underWay.Lock()
	defer w.underWay.Unlock()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.done)
}

// AwaitRead waits until a manager has read an object with this name. A story that requires that nothing happens calls
// AwaitRead first.
func (w *Writes) AwaitRead(name string) {
	GinkgoHelper()
	Eventually(func() bool {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		return w.read[name]
	}).Should(BeTrue(), "no manager has read %s", name)
}

func (w *Writes) reads(name string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.read == nil {
		w.read = map[string]bool{}
	}
	w.read[name] = true
}

func (w *Writes) verdict(write Write) Verdict {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.judge == nil {
		return Verdict{}
	}
	return w.judge(write)
}

func (w *Writes) do(c client.Client, verb string, object client.Object, write func() error) error {
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	this := Write{Verb: verb, Kind: kind.Kind, Name: object.GetName()}
	verdict := w.verdict(this)
	if verdict.Err != nil && !verdict.Lost {
		return verdict.Err
	}
	w.underWay.RLock()
	defer w.underWay.RUnlock()
	if err := write(); err != nil {
		return err
	}
	w.mutex.Lock()
	w.done = append(w.done, this)
	w.mutex.Unlock()
	return verdict.Err
}

func (w *Writes) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			err := c.Get(ctx, key, object, options...)
			w.reads(key.Name)
			return err
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return w.do(c, "create", object, func() error { return c.Create(ctx, object, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return w.do(c, "update", object, func() error { return c.Update(ctx, object, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return w.do(c, "delete", object, func() error { return c.Delete(ctx, object, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			return w.do(c, "patch", object, func() error { return c.Patch(ctx, object, patch, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			return w.do(c, "patch "+name, object, func() error {
				return c.SubResource(name).Patch(ctx, object, patch, options...)
			})
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object,
			options ...client.SubResourceUpdateOption,
		) error {
			return w.do(c, "update "+name, object, func() error {
				return c.SubResource(name).Update(ctx, object, options...)
			})
		},
	}
}
