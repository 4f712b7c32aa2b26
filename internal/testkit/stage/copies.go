package stage

import (
	"context"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// CountCopies returns a client with these objects, and the number of its reads that a cache would answer with a copy.
func CountCopies(objects ...client.Object) (counting client.Client, copies *int) {
	copies = new(int)
	read := func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
		options ...client.GetOption,
	) error {
		if !ptr.Deref((&client.GetOptions{}).ApplyOptions(options).UnsafeDisableDeepCopy, false) {
			*copies++
		}
		return c.Get(ctx, key, object, options...)
	}
	return fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{Get: read}).Build(), copies
}
