package metal3data

import (
	"context"
	"fmt"

	ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

// metal3API is the API of the Metal3 IP address manager: IPClaims.
type metal3API struct{}

func (metal3API) kind() string { return "IPClaim" }

func (metal3API) objects() (client.Object, client.ObjectList) {
	return &ipamv1.IPClaim{}, &ipamv1.IPClaimList{}
}

func (metal3API) desired(key client.ObjectKey, pool hostdata.Pool) client.Object {
	return &ipamv1.IPClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       ipamv1.IPClaimSpec{Pool: corev1.ObjectReference{Namespace: key.Namespace, Name: pool.Name}},
	}
}

// answer reads the address past the cache: it is read once, so a cache of all addresses would not pay.
func (metal3API) answer(ctx context.Context, live client.Reader, object client.Object) (hostdata.FoundClaim, error) {
	claim, isClaim := object.(*ipamv1.IPClaim)
	if !isClaim {
		return hostdata.FoundClaim{}, fmt.Errorf("%T is not an IPClaim", object)
	}
	found := hostdata.FoundClaim{Failure: ptr.Deref(claim.Status.ErrorMessage, ""), Final: true}
	if claim.Status.Address == nil {
		return found, nil
	}
	address := &ipamv1.IPAddress{}
	err := live.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.Address.Name}, address)
	if err != nil {
		// The manager creates the address before it names it.
		return found, client.IgnoreNotFound(err)
	}
	found.Address = &hostdata.Address{
		Address: string(address.Spec.Address),
		Prefix:  ptr.To(int32(min(max(address.Spec.Prefix, 0), maxPrefix))),
		Gateway: string(ptr.Deref(address.Spec.Gateway, "")),
	}
	for _, server := range address.Spec.DNSServers {
		found.Address.DNSServers = append(found.Address.DNSServers, string(server))
	}
	return found, nil
}

// maxPrefix is the longest prefix of any family.
const maxPrefix = 128

// poolIsMissing asks for the pool until the manager has put its finalizer on the claim, which it does when it finds the
// pool.
func (metal3API) poolIsMissing(
	ctx context.Context, live client.Reader, claim client.Object, pool hostdata.Pool,
) (bool, error) {
	if controllerutil.ContainsFinalizer(claim, ipamv1.IPClaimFinalizer) {
		return false, nil
	}
	err := live.Get(ctx, client.ObjectKey{Namespace: claim.GetNamespace(), Name: pool.Name}, &ipamv1.IPPool{})
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}
