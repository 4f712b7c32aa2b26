package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
)

// The Baremetal Operator (BMO) runs as it is released. What an administrator chooses is how it reaches Ironic.
const (
	// OperatorNamespace is where BMO runs, and OperatorDeployment what runs it.
	OperatorNamespace  = "baremetal-operator-system"
	OperatorDeployment = "baremetal-operator-controller-manager"

	// OperatorCredentials is the Secret with the credentials and the authority of Ironic that BMO reads when it starts.
	OperatorCredentials = "ironic-client"

	operatorProgram   = "/baremetal-operator"
	operatorManifests = "config/render/capm3.yaml"
	operatorConfig    = "ironic"
)

// operatorObjects are the released manifests of BMO, for an Ironic, without the definitions.
func (l *Lab) operatorObjects(ctx context.Context, endpoint ironicapi.Endpoint) ([]client.Object, error) {
	module, err := l.source().BaremetalOperator(ctx)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(module, filepath.FromSlash(operatorManifests)))
	if err != nil {
		return nil, err
	}
	objects := []client.Object{operatorNamespace(), OperatorSecret(endpoint)}
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content))
	for {
		object := &unstructured.Unstructured{}
		switch err := documents.Decode(object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("reading the manifests of BMO: %w", err)
		}
		made, err := adapt(object, endpoint)
		if err != nil {
			return nil, fmt.Errorf("reading %s of BMO: %w", object.GetKind(), err)
		}
		if made != nil {
			objects = append(objects, made)
		}
	}
}

func operatorNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: OperatorNamespace}}
}

// OperatorSecret is OperatorCredentials for an Ironic.
func OperatorSecret(endpoint ironicapi.Endpoint) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: OperatorCredentials},
		Data: map[string][]byte{
			"username": []byte(endpoint.Username), "password": []byte(endpoint.Password), "ca.crt": endpoint.Authority,
		},
	}
}

// adapt makes of a released object what an administrator makes of it. It is nil for what is installed otherwise.
func adapt(object *unstructured.Unstructured, endpoint ironicapi.Endpoint) (client.Object, error) {
	switch object.GetKind() {
	case "CustomResourceDefinition":
		return nil, nil
	case "ConfigMap":
		images := "http://" + net.JoinHostPort(IronicAddress, strconv.Itoa(int(infrav1.DefaultImagePort))) + "/images/"
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: operatorConfig},
			Data: map[string]string{
				"IRONIC_ENDPOINT":    endpoint.URL,
				"DEPLOY_KERNEL_URL":  images + "ironic-python-agent.kernel",
				"DEPLOY_RAMDISK_URL": images + "ironic-python-agent.initramfs",
			},
		}, nil
	case "Deployment":
		deployment := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
			return nil, err
		}
		connect(&deployment.Spec.Template.Spec)
		return deployment, nil
	default:
		return object, nil
	}
}

// connect gives BMO the image of the lab and the credentials of Ironic, and lets it run where a control plane is all
// that a cluster has.
func connect(pod *corev1.PodSpec) {
	const volume = "ironic-client"
	container := &pod.Containers[0]
	container.Image, container.ImagePullPolicy = operatorImage, corev1.PullIfNotPresent
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
