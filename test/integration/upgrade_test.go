package integration_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
)

// describeUpgrade are the specs about clusterctl upgrade apply, from CAPM3 to this provider. test/upgrade tells what the
// managers do then.
func describeUpgrade(m *management) {
	uids := map[client.Object]types.UID{}

	It("has CAPM3, as clusterctl installs it, and its objects", func(ctx context.Context) {
		Expect(m.missing).NotTo(HaveOccurred())
		m.run(ctx, "init", "--infrastructure=metal3:"+filepath.Base(os.Getenv(earlierVariable)))
		Expect(m.server.Client.Create(ctx, build.Namespace(build.DefaultNamespace))).To(Succeed())
		// The webhooks of CAPM3 have no manager here.
		m.kubectl(ctx, "delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--all")
		machine := build.Metal3Machine("machine", clusterName)
		for _, object := range []client.Object{
			build.Metal3Cluster(clusterName), machine, &infrav1.Metal3MachineTemplate{
				ObjectMeta: build.Metal3Machine("template", clusterName).ObjectMeta,
				Spec:       infrav1.Metal3MachineTemplateSpec{Template: infrav1.Metal3MachineTemplateResource{Spec: machine.Spec}},
			},
		} {
			Expect(m.server.Client.Create(ctx, object)).To(Succeed())
			uids[object] = object.GetUID()
		}
	})

	It("is upgraded by clusterctl", func(ctx context.Context) {
		plan := m.run(ctx, "upgrade", "plan")
		Expect(plan).To(ContainSubstring(filepath.Base(m.release)))
		m.run(ctx, "upgrade", "apply", "--infrastructure=metal3:"+filepath.Base(m.release))
		Expect(m.providers(ctx)).To(ContainElement("infrastructure-metal3"))
	})

	It("has one manager of this kind, the new one", func(ctx context.Context) {
		var deployments appsv1.DeploymentList
		Expect(m.server.Client.List(ctx, &deployments, client.MatchingLabels{
			"cluster.x-k8s.io/provider": "infrastructure-metal3",
		})).To(Succeed())
		Expect(deployments.Items).To(HaveLen(1))
		Expect(deployments.Items[0].Spec.Template.Spec.Containers[0].Image).To(
			HaveSuffix("cluster-api-provider-metal3:" + filepath.Base(m.release)))
	})

	It("has the definitions of this provider, and all objects as they were", func(ctx context.Context) {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		key := client.ObjectKey{Name: "metal3clusters." + infrav1.GroupVersion.Group}
		Expect(m.server.Client.Get(ctx, key, definition)).To(Succeed())
		Expect(definition.Spec.Versions).To(ContainElement(HaveField("Schema.OpenAPIV3Schema.Properties",
			HaveKeyWithValue("spec", HaveField("Properties", HaveKey("ironic"))))))
		for object, uid := range uids {
			Expect(m.server.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			Expect(object.GetUID()).To(Equal(uid), object.GetName())
		}
	})

	It("runs the manager of this provider, which takes the objects over", func(ctx context.Context) {
		m.startManagers(ctx, managers.Provider(m.buildManager(ctx)))
		invalid := build.Metal3Machine("invalid", clusterName)
		invalid.Spec.Image = nil
		Expect(m.server.Client.Create(ctx, invalid)).To(Satisfy(apierrors.IsInvalid))
		for object := range uids {
			Eventually(func(g Gomega) {
				g.Expect(m.server.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
				if reports, ok := object.(*infrav1.Metal3Cluster); ok {
					g.Expect(reports.Status.Conditions).NotTo(BeEmpty())
				}
			}).Should(Succeed())
		}
	}, NodeTimeout(buildPatience))
}
