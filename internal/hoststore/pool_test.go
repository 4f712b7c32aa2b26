package hoststore_test

import (
	"context"
	"errors"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestChooseFromThePool chooses while every list of hosts fails. So a host is found in the pool or not at all.
func TestChooseFromThePool(t *testing.T) {
	free, held := available("a"), taken("a")
	cases := map[string]struct {
		reason string
		events func(see func(before, after *bmov1alpha1.BareMetalHost))
		want   string
	}{
		"Nothing": {
			reason: "Without hosts the list is asked, to count why.",
			events: func(func(before, after *bmov1alpha1.BareMetalHost)) {},
		},
		"New": {
			reason: "A host that appears is in the pool.",
			events: func(see func(before, after *bmov1alpha1.BareMetalHost)) { see(nil, free) },
			want:   "a",
		},
		"Claimed": {
			reason: "A host that somebody claims leaves the pool.",
			events: func(see func(before, after *bmov1alpha1.BareMetalHost)) { see(nil, free); see(free, held) },
		},
		"Released": {
			reason: "A host that is let go comes back.",
			events: func(see func(before, after *bmov1alpha1.BareMetalHost)) { see(nil, held); see(held, free) },
			want:   "a",
		},
		"Deleted": {
			reason: "A host that is gone leaves the pool.",
			events: func(see func(before, after *bmov1alpha1.BareMetalHost)) { see(nil, free); see(free, nil) },
		},
		"OtherNamespace": {
			reason: "Hosts of other namespaces do not count.",
			events: func(see func(before, after *bmov1alpha1.BareMetalHost)) {
				see(nil, build.Host("a", build.Available(), build.InNamespace("other")))
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return errBroken
				},
			}).Build()
			store := hoststore.New(c, c)
			informers := &informertest.FakeInformers{Scheme: build.Scheme()}
			if _, err := store.Watch(ctx, informers); err != nil {
				t.Fatal(err)
			}
			informer, err := informers.FakeInformerFor(ctx, &bmov1alpha1.BareMetalHost{})
			if err != nil {
				t.Fatal(err)
			}
			tc.events(func(before, after *bmov1alpha1.BareMetalHost) {
				switch {
				case before == nil:
					informer.Add(after)
				case after == nil:
					informer.Delete(before)
				default:
					informer.Update(before, after)
				}
			})
			choice, err := store.Choose(ctx, host.Wanted{Machine: "machine", Namespace: build.DefaultNamespace})
			if tc.want == "" {
				if !errors.Is(err, errBroken) {
					t.Errorf("%s\nChoose() = %q, %v, want the error of the list", tc.reason, choice.Message, err)
				}
				return
			}
			if err != nil || choice.Host == nil || choice.Host.Name != tc.want {
				t.Errorf("%s\nChoose() = %q, %v, want host %s", tc.reason, choice.Message, err, tc.want)
			}
		})
	}
}

// TestChooseBeforeThePoolIsComplete starts a process that has heard of one free host while the cache holds also the one
// that is reserved for the machine. That one would be missed if the pool counted already.
func TestChooseBeforeThePoolIsComplete(t *testing.T) {
	ctx := context.Background()
	free := available("a")
	kept := available("b", build.Labels(map[string]string{infrav1.NodeReuseLabel: "md-workers"}))
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(free, kept).Build()
	store := hoststore.New(c, c)
	starting := controllertest.NewFakeInformer()
	informers := &informertest.FakeInformers{
		Scheme:         build.Scheme(),
		InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{free.GroupVersionKind(): starting},
	}
	if _, err := store.Watch(ctx, informers); err != nil {
		t.Fatal(err)
	}
	starting.Add(free)
	choice, err := store.Choose(ctx, host.Wanted{
		Machine: "machine", Namespace: build.DefaultNamespace, Owner: "md-workers",
	})
	if err != nil || choice.Host == nil || choice.Host.Name != kept.Name {
		t.Errorf("Choose() = %q, %v, want host %s", choice.Message, err, kept.Name)
	}
}
