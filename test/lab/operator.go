package lab

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

const (
	// OperatorNamespace is the namespace of BMO.
	OperatorNamespace = "baremetal-operator-system"
	// OperatorDeployment is the Deployment of BMO.
	OperatorDeployment = "baremetal-operator-controller-manager"

	// OperatorCredentials is the Secret with the credentials and the authority of Ironic that BMO reads when it starts.
	OperatorCredentials = "ironic-client"

	operatorProgram = "/baremetal-operator"
	operatorConfig  = "ironic"
)

// EarlierOperator installs the BMO of the previous minor version with the CRDs of the later version. It blocks until
// that BMO is available.
func (l *Lab) EarlierOperator(ctx context.Context, cluster *Cluster) error {
	archive := filepath.Join(l.folder, "images", "earlier-operator.tar")
	earlier := binaries.EarlierBaremetalOperator()
	if err := l.packProgram(ctx, earlier, earlierOperatorImage, operatorProgram, archive); err != nil {
		return err
	}
	if err := importImage(ctx, l.Machine(cluster.Name), archive); err != nil {
		return err
	}
	module, err := l.source().EarlierBaremetalOperator(ctx)
	if err != nil {
		return err
	}
	return l.replaceOperator(ctx, cluster, module, earlierOperatorImage)
}

// UpgradeOperator installs the BMO of the lab. It blocks until that BMO is available.
func (l *Lab) UpgradeOperator(ctx context.Context, cluster *Cluster) error {
	module, err := l.source().BaremetalOperator(ctx)
	if err != nil {
		return err
	}
	return l.replaceOperator(ctx, cluster, module, operatorImage)
}

// replaceOperator replaces all objects of BMO.
func (l *Lab) replaceOperator(ctx context.Context, cluster *Cluster, module, image string) error {
	objects, err := operatorObjects(module, image, l.Ironic())
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetObjectKind().GroupVersionKind().Kind == "ValidatingWebhookConfiguration" {
			// The Secret exists, with the authority of the certificate.
			continue
		}
		if err := replace(ctx, cluster.Client, object); err != nil {
			return err
		}
	}
	return l.WaitForDeployments(ctx, cluster, client.InNamespace(OperatorNamespace))
}

// replace creates or updates an object.
func replace(ctx context.Context, writer client.Client, object client.Object) error {
	err := writer.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		found := &metav1.PartialObjectMetadata{}
		kind, kindErr := writer.GroupVersionKindFor(object)
		if kindErr != nil {
			return kindErr
		}
		found.SetGroupVersionKind(kind)
		if err = writer.Get(ctx, client.ObjectKeyFromObject(object), found); err == nil {
			object.SetResourceVersion(found.ResourceVersion)
			err = writer.Update(ctx, object)
		}
	}
	if err != nil {
		return fmt.Errorf("replacing %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// operatorObjects returns the released manifests of BMO in a module, for an Ironic, without the CRDs.
func operatorObjects(module, image string, endpoint ironicapi.Endpoint) ([]client.Object, error) {
	manifests, err := components.OperatorManifests(module)
	if err != nil {
		return nil, err
	}
	objects := []client.Object{operatorNamespace(), OperatorSecret(endpoint)}
	for i := range manifests {
		object, err := adapt(&manifests[i], image, endpoint)
		if err != nil {
			return nil, fmt.Errorf("reading %s of BMO: %w", manifests[i].GetKind(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func operatorNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: OperatorNamespace}}
}

// OperatorSecret returns the Secret OperatorCredentials for an Ironic.
func OperatorSecret(endpoint ironicapi.Endpoint) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: OperatorCredentials},
		Data: map[string][]byte{
			"username": []byte(endpoint.Username), "password": []byte(endpoint.Password), "ca.crt": endpoint.Authority,
		},
	}
}

// adapt configures a released object as an administrator does.
func adapt(object *unstructured.Unstructured, image string, endpoint ironicapi.Endpoint) (client.Object, error) {
	switch object.GetKind() {
	case "ConfigMap":
		files := "http://" + net.JoinHostPort(IronicAddress, strconv.Itoa(int(infrav1.DefaultImagePort))) + "/images/"
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: operatorConfig},
			Data: map[string]string{
				"IRONIC_ENDPOINT":    endpoint.URL,
				"DEPLOY_KERNEL_URL":  files + "ironic-python-agent.kernel",
				"DEPLOY_RAMDISK_URL": files + "ironic-python-agent.initramfs",
				// As PatientLeases does for the other managers.
				"LEASE_DURATION_SECONDS": components.LeaseSeconds,
				"RENEW_DEADLINE_SECONDS": components.RenewSeconds,
				"RETRY_PERIOD_SECONDS":   components.RetrySeconds,
			},
		}, nil
	case "Deployment":
		deployment := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
			return nil, err
		}
		connect(&deployment.Spec.Template.Spec, image)
		return deployment, nil
	default:
		return object, nil
	}
}

// connect sets the image of BMO and mounts the credentials of Ironic. It tolerates control-plane nodes, because a
// cluster may have no others.
func connect(pod *corev1.PodSpec, image string) {
	const volume = "ironic-client"
	container := &pod.Containers[0]
	container.Image, container.ImagePullPolicy = image, corev1.PullIfNotPresent
	container.VolumeMounts = append(container.VolumeMounts,
		corev1.VolumeMount{Name: volume, MountPath: "/opt/metal3", ReadOnly: true})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: OperatorCredentials, Items: []corev1.KeyToPath{
			{Key: "username", Path: "auth/ironic/username"}, {Key: "password", Path: "auth/ironic/password"},
			{Key: "ca.crt", Path: "certs/ca/tls.crt"},
		}},
	}})
	pod.Tolerations = append(pod.Tolerations, corev1.Toleration{
		Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule,
	})
}
