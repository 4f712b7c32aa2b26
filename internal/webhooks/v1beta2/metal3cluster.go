package v1beta2

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-metal3cluster,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters,versions=v1beta2,name=default.metal3cluster.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3cluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters,versions=v1beta2,name=validation.metal3cluster.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// defaultEndpointPort is the port of the API server of a cluster whose endpoint has none.
const defaultEndpointPort int32 = 6443

// clusterIDBytes is the length of a generated clusterID before it is written in hexadecimal.
const clusterIDBytes = 4

// Metal3ClusterDefaulter sets the defaults of Metal3Clusters. Random is crypto/rand.Read.
func Metal3ClusterDefaulter(random func([]byte) (int, error)) admission.Defaulter[*infrav1.Metal3Cluster] {
	return defaulter[*infrav1.Metal3Cluster]{
		fill: func(ctx context.Context, cluster *infrav1.Metal3Cluster) error {
			before, err := storedCluster(ctx)
			if err != nil {
				return err
			}
			return fillCluster(before, cluster, random)
		},
	}
}

// Metal3ClusterValidator validates Metal3Clusters.
func Metal3ClusterValidator() admission.Validator[*infrav1.Metal3Cluster] {
	return validator[*infrav1.Metal3Cluster]{
		kind: "Metal3Cluster",
		state: func(cluster *infrav1.Metal3Cluster) rule.Findings {
			return rule.ClusterSpec(field.NewPath("spec"), &cluster.Spec)
		},
		change: clusterChange,
	}
}

// storedCluster returns the object before an update, and an empty cluster at a creation.
func storedCluster(ctx context.Context) (*infrav1.Metal3Cluster, error) {
	stored := &infrav1.Metal3Cluster{}
	request, err := admission.RequestFromContext(ctx)
	if err == nil && len(request.OldObject.Raw) > 0 {
		if err := json.Unmarshal(request.OldObject.Raw, stored); err != nil {
			return nil, fmt.Errorf("reading the stored Metal3Cluster: %w", err)
		}
	}
	return stored, nil
}

func fillCluster(before, cluster *infrav1.Metal3Cluster, random func([]byte) (int, error)) error {
	spec := &cluster.Spec
	if spec.ControlPlaneEndpoint.Host != "" && spec.ControlPlaneEndpoint.Port == 0 {
		spec.ControlPlaneEndpoint.Port = defaultEndpointPort
	}
	if spec.CloudProviderEnabled == nil {
		spec.CloudProviderEnabled = ptr.To(false)
	}
	if isRemnant(before.Spec.Ironic, spec.Ironic) {
		spec.Ironic = nil
	}
	clusterID, routerID := identityOf(before, cluster)
	if spec.Ironic == nil {
		if clusterID != "" {
			metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, infrav1.IronicIdentityAnnotation,
				fmt.Sprintf("%s/%d", clusterID, routerID))
		}
		return nil
	}
	delete(cluster.Annotations, infrav1.IronicIdentityAnnotation)
	if spec.Ironic.VRRP.VirtualRouterID == 0 {
		spec.Ironic.VRRP.VirtualRouterID = routerID
	}
	if spec.Ironic.ClusterID == "" {
		spec.Ironic.ClusterID = clusterID
	}
	if spec.Ironic.ClusterID != "" {
		return nil
	}
	bytes := make([]byte, clusterIDBytes)
	if _, err := random(bytes); err != nil {
		return fmt.Errorf("choosing spec.ironic.clusterID: %w", err)
	}
	spec.Ironic.ClusterID = hex.EncodeToString(bytes)
	return nil
}

// isRemnant returns true if an update leaves only the fields that the provider sets. Server-side apply keeps these when
// their user removes spec.ironic, because the provider owns them.
func isRemnant(before, after *infrav1.Ironic) bool {
	if before == nil || after == nil || equality.Semantic.DeepEqual(before.Endpoint, infrav1.IronicEndpoint{}) {
		return false
	}
	rest := *after
	rest.ClusterID, rest.VRRP.VirtualRouterID = "", 0
	return equality.Semantic.DeepEqual(rest, infrav1.Ironic{})
}

// identityOf returns the clusterID and the virtual router ID that the nodes of a cluster use: those of the stored
// spec.ironic or, after its removal, of the annotation. The provider could choose others. Empty and 0 mean unknown.
func identityOf(before, after *infrav1.Metal3Cluster) (string, int32) {
	if ironic := before.Spec.Ironic; ironic != nil {
		return ironic.ClusterID, ironic.VRRP.VirtualRouterID
	}
	kept, isStored := before.Annotations[infrav1.IronicIdentityAnnotation]
	if !isStored {
		kept = after.Annotations[infrav1.IronicIdentityAnnotation]
	}
	clusterID, number, _ := strings.Cut(kept, "/")
	routerID, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		routerID = 0
	}
	return clusterID, int32(routerID)
}

func clusterChange(before, after *infrav1.Metal3Cluster) rule.Findings {
	path := field.NewPath("spec")
	var removed rule.Findings
	if before.Spec.Ironic != nil && after.Spec.Ironic == nil {
		removed = rule.Warn(path.Child("ironic"), "is removed: no node of this cluster runs Ironic for it any more")
	}
	return rule.Join(
		removed,
		endpointChange(path.Child("controlPlaneEndpoint"), before, after),
		rule.IronicChange(path.Child("ironic"), before.Spec.Ironic, after.Spec.Ironic),
		rule.RouterIDChange(path.Child("ironic"), before.Spec.Ironic, after.Spec.Ironic),
	)
}

// endpointChange refuses to change the endpoint of a provisioned cluster: certificates and kubeconfigs name it.
func endpointChange(path *field.Path, before, after *infrav1.Metal3Cluster) rule.Findings {
	if !ptr.Deref(before.Status.Initialization.Provisioned, false) || before.Spec.ControlPlaneEndpoint.IsZero() {
		return rule.Findings{}
	}
	return rule.Refusals(rule.Unchanged(path, hostPort(before.Spec.ControlPlaneEndpoint),
		hostPort(after.Spec.ControlPlaneEndpoint), "restore it: the cluster is provisioned and its nodes know no other"))
}

// hostPort formats an endpoint. A missing port means the default port, which an update sets.
func hostPort(endpoint clusterv1.APIEndpoint) string {
	if endpoint.IsZero() {
		return ""
	}
	port := endpoint.Port
	if port == 0 {
		port = defaultEndpointPort
	}
	return net.JoinHostPort(endpoint.Host, strconv.Itoa(int(port)))
}
