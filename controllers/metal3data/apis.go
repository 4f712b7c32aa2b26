package metal3data

import (
	"cmp"
	"context"
	"fmt"

	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// clusterAPI is the IPAM contract of Cluster API: IPAddressClaims.
type clusterAPI struct{}

func (clusterAPI) kind() string { return "IPAddressClaim" }

func (clusterAPI) objects() (client.Object, client.ObjectList) {
	return &ipamv1.IPAddressClaim{}, &ipamv1.IPAddressClaimList{}
}

func (clusterAPI) desired(key client.ObjectKey, pool hostdata.Pool, cluster string) client.Object {
	return &ipamv1.IPAddressClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: ipamv1.IPAddressClaimSpec{
			ClusterName: cluster,
			PoolRef:     ipamv1.IPPoolReference{APIGroup: pool.Group, Kind: pool.Kind, Name: pool.Name},
		},
	}
}

// result reads the address, or the failure in the condition Ready. A failure is not final, because providers retry. The
// Metal3 IP address manager does not retry, but addresses of its pools are claimed with IPClaims. A claim that is being
// deleted has no address: its provider releases the address without regard to other finalizers.
func (clusterAPI) result(ctx context.Context, live client.Reader, object client.Object) (hostdata.FoundClaim, error) {
	claim, isClaim := object.(*ipamv1.IPAddressClaim)
	if !isClaim {
		return hostdata.FoundClaim{}, fmt.Errorf("%T is not an IPAddressClaim", object)
	}
	var found hostdata.FoundClaim
	ready := meta.FindStatusCondition(claim.Status.Conditions, ipamv1.IPAddressClaimReadyCondition)
	if ready != nil && ready.Status == metav1.ConditionFalse {
		found.Failure = cmp.Or(ready.Message, ready.Reason)
	}
	if claim.Status.AddressRef.Name == "" || !claim.DeletionTimestamp.IsZero() {
		return found, nil
	}
	name := claim.Status.AddressRef.Name
	address, err := flow.Find[ipamv1.IPAddress](ctx, live, client.ObjectKey{Namespace: claim.Namespace, Name: name})
	switch {
	case err != nil:
		return found, err
	case address == nil:
		found.Failure = fmt.Sprintf("status.addressRef names IPAddress %s, which does not exist", name)
		return found, nil
	case address.Spec.ClaimRef.Name != claim.Name:
		found.Failure = fmt.Sprintf("status.addressRef names IPAddress %s, which belongs to IPAddressClaim %s",
			name, address.Spec.ClaimRef.Name)
		return found, nil
	case address.Spec.PoolRef != claim.Spec.PoolRef:
		// The Metal3 IP address manager answers claims of all pools with the name of an IPPool.
		pool := address.Spec.PoolRef
		found.OtherPool = fmt.Sprintf("%s.%s %s", pool.Kind, pool.APIGroup, pool.Name)
		return found, nil
	}
	found.Address = &hostdata.Address{
		Address: address.Spec.Address, Prefix: address.Spec.Prefix, Gateway: address.Spec.Gateway,
	}
	return found, nil
}

// poolIsMissing returns false: the manager has no permission to read pools of any kind.
func (clusterAPI) poolIsMissing(context.Context, client.Reader, client.Object, hostdata.Pool) (bool, error) {
	return false, nil
}

// metal3API is the API of the Metal3 IP address manager: IPClaims.
type metal3API struct{}

func (metal3API) kind() string { return "IPClaim" }

func (metal3API) objects() (client.Object, client.ObjectList) {
	return &metal3ipamv1.IPClaim{}, &metal3ipamv1.IPClaimList{}
}

func (metal3API) desired(key client.ObjectKey, pool hostdata.Pool, _ string) client.Object {
	return &metal3ipamv1.IPClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       metal3ipamv1.IPClaimSpec{Pool: corev1.ObjectReference{Namespace: key.Namespace, Name: pool.Name}},
	}
}

// result reads the address, or the failure. The live read avoids a cache of all addresses.
func (metal3API) result(ctx context.Context, live client.Reader, object client.Object) (hostdata.FoundClaim, error) {
	claim, isClaim := object.(*metal3ipamv1.IPClaim)
	if !isClaim {
		return hostdata.FoundClaim{}, fmt.Errorf("%T is not an IPClaim", object)
	}
	found := hostdata.FoundClaim{Failure: ptr.Deref(claim.Status.ErrorMessage, ""), Final: true}
	if claim.Status.Address == nil {
		return found, nil
	}
	name := claim.Status.Address.Name
	address, err := flow.Find[metal3ipamv1.IPAddress](ctx, live, client.ObjectKey{Namespace: claim.Namespace, Name: name})
	switch {
	case err != nil:
		return found, err
	case address == nil:
		// The address manager creates the address before it sets status.address.
		found.Failure = fmt.Sprintf("status.address names IPAddress %s, which does not exist", name)
		return found, nil
	case address.Spec.Claim.Name != claim.Name:
		// The name of an address follows from its value: another claim may have got the address after its release.
		found.Failure = fmt.Sprintf("status.address names IPAddress %s, which belongs to IPClaim %s",
			name, address.Spec.Claim.Name)
		return found, nil
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

// maxPrefix is the longest prefix of any IP family.
const maxPrefix = 128

// poolIsMissing reads the pool live, unless the claim has the finalizer of the address manager, which shows that the
// pool exists.
func (metal3API) poolIsMissing(
	ctx context.Context, live client.Reader, claim client.Object, pool hostdata.Pool,
) (bool, error) {
	if controllerutil.ContainsFinalizer(claim, metal3ipamv1.IPClaimFinalizer) {
		return false, nil
	}
	err := live.Get(ctx, client.ObjectKey{Namespace: claim.GetNamespace(), Name: pool.Name}, &metal3ipamv1.IPPool{})
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}
