package metal3data

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
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
	address := &ipamv1.IPAddress{}
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.AddressRef.Name}
	if err := live.Get(ctx, key, address); err != nil {
		return found, client.IgnoreNotFound(err)
	}
	if owner := address.Spec.ClaimRef.Name; owner != claim.Name {
		found.Failure = fmt.Sprintf("status.addressRef names IPAddress %s, which belongs to IPAddressClaim %s",
			address.Name, owner)
		return found, nil
	}
	if pool := address.Spec.PoolRef; pool != claim.Spec.PoolRef {
		// The Metal3 IP address manager answers claims of all pools with the name of an IPPool.
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
