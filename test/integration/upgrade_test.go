package integration_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
)

const (
	// shapedVersion is the version of the release that replaces a true release of CAPM3.
	shapedVersion = "v1.14.0"

	// shapedMinor is the last series in the metadata of that release.
	shapedMinor = 14

	// shapedImage is the image of CAPM3's manager in that release.
	shapedImage = "quay.io/metal3-io/cluster-api-provider-metal3:" + shapedVersion

	// nextVersion is the version of a copy of the release under test.
	nextVersion = "v1.15.1"
)

// startWithEarlier starts a management cluster whose repository has three releases: CAPM3, the release under test, and a
// copy of it with the next version. CAPM3_RELEASE names a true release of CAPM3. Without it, the specs write a release
// that has what clusterctl reads: the namespace, CRDs and Deployment of CAPM3, without programs. A second repository has
// CAPM3 alone, as clusterctl finds it without a configuration.
func (m *management) startWithEarlier(ctx context.Context) {
	GinkgoHelper()
	root, err := binaries.Root()
	Expect(err).NotTo(HaveOccurred())
	release, err := releaseFolder(root)
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	m.capm3 = os.Getenv(earlierVariable)
	if m.capm3 == "" {
		m.capm3 = filepath.Join(folder, shapedVersion)
		writeShaped(release, m.capm3)
	}
	next := filepath.Join(folder, nextVersion)
	writeNext(release, next)
	m.start(ctx, m.capm3, next)
	config, err := m.source.WriteRepository(ctx, components.Repository{Folder: GinkgoT().TempDir(), Release: m.capm3})
	Expect(err).NotTo(HaveOccurred())
	m.published = m.clusterctl
	m.published.Config = config
}

const (
	componentsFile = "infrastructure-components.yaml"
	metadataFile   = "metadata.yaml"
)

// writeNext copies a release under the next version.
func writeNext(release, folder string) {
	GinkgoHelper()
	Expect(os.CopyFS(folder, os.DirFS(release))).To(Succeed())
	path := filepath.Join(folder, componentsFile)
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	image := "cluster-api-provider-metal3:"
	before, after := image+filepath.Base(release)+"\n", image+nextVersion+"\n"
	Expect(bytes.Count(content, []byte(before))).To(Equal(1))
	Expect(os.WriteFile(path, bytes.Replace(content, []byte(before), []byte(after), 1), 0o600)).To(Succeed())
}

// writeShaped writes a release with the names of CAPM3: its Namespace, its ServiceAccount, its CRDs without the fields of
// this provider, and its Deployment.
func writeShaped(release, folder string) {
	GinkgoHelper()
	Expect(os.MkdirAll(folder, 0o750)).To(Succeed())
	content, err := os.ReadFile(filepath.Join(release, componentsFile))
	Expect(err).NotTo(HaveOccurred())
	var shaped bytes.Buffer
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var object unstructured.Unstructured
		Expect(yaml.Unmarshal(document, &object.Object)).To(Succeed())
		switch object.GetKind() {
		case "Namespace", "ServiceAccount":
		case "CustomResourceDefinition":
			shapeDefinition(&object)
		case "Deployment":
			containers := []any{map[string]any{"name": "manager", "image": shapedImage}}
			Expect(unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", "containers")).To(Succeed())
		default:
			continue
		}
		text, err := yaml.Marshal(object.Object)
		Expect(err).NotTo(HaveOccurred())
		shaped.WriteString("---\n" + string(text))
	}
	Expect(os.WriteFile(filepath.Join(folder, componentsFile), shaped.Bytes(), 0o600)).To(Succeed())
	writeShapedMetadata(release, folder)
}

// writeShapedMetadata writes the metadata of a release without the series that CAPM3 does not have.
func writeShapedMetadata(release, folder string) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(release, metadataFile))
	Expect(err).NotTo(HaveOccurred())
	var metadata clusterctlv1.Metadata
	Expect(yaml.Unmarshal(content, &metadata)).To(Succeed())
	metadata.ReleaseSeries = slices.DeleteFunc(metadata.ReleaseSeries, func(series clusterctlv1.ReleaseSeries) bool {
		return series.Minor > shapedMinor
	})
	content, err = yaml.Marshal(metadata)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, metadataFile), content, 0o600)).To(Succeed())
}

// shapeDefinition removes spec.ironic and the conversion webhook from a CRD. CAPM3 has no spec.ironic, and no program
// serves the webhook in these specs.
func shapeDefinition(object *unstructured.Unstructured) {
	GinkgoHelper()
	unstructured.RemoveNestedField(object.Object, "spec", "conversion")
	versions, _, err := unstructured.NestedSlice(object.Object, "spec", "versions")
	Expect(err).NotTo(HaveOccurred())
	for _, each := range versions {
		version, isMap := each.(map[string]any)
		Expect(isMap).To(BeTrue())
		unstructured.RemoveNestedField(version,
			"schema", "openAPIV3Schema", "properties", "spec", "properties", "ironic")
	}
	Expect(unstructured.SetNestedSlice(object.Object, versions, "spec", "versions")).To(Succeed())
}

// describeUpgrade are the specs about clusterctl upgrade apply: from CAPM3 to this provider, to its next version, and back
// to CAPM3. test/upgrade covers what the managers do then.
func describeUpgrade(m *management) {
	uids := map[client.Object]types.UID{}
	program := ""

	It("has CAPM3, as clusterctl installs it, and its objects", func(ctx context.Context) {
		Expect(m.missing).NotTo(HaveOccurred())
		m.run(ctx, "init", "--infrastructure=metal3:"+filepath.Base(m.capm3))
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
		Expect(plan).To(ContainSubstring(nextVersion))
		m.follow(ctx, "Replace", filepath.Base(m.release))
		Expect(m.providers(ctx)).To(ContainElement("infrastructure-metal3"))
	})

	It("has one manager of this kind, the new one", func(ctx context.Context) {
		m.expectInstalled(ctx, filepath.Base(m.release))
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

	It("runs the manager of this provider, which manages the existing objects", func(ctx context.Context) {
		program = m.buildManager(ctx)
		m.startManagers(ctx, managers.Provider(program))
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

	It("is not upgraded without the configuration, as the troubleshooting explains", func(ctx context.Context) {
		const problem = "for the provider capm3-system/infrastructure-metal3 does not match any release series"
		_, err := m.published.Run(ctx, "upgrade", "plan")
		Expect(err).To(MatchError(ContainSubstring(problem)))
		page, err := os.ReadFile(filepath.Join(m.server.Root(), "docs", "troubleshooting.md"))
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Contains(string(page), problem)).To(BeTrue())
	})

	It("is upgraded to the next version, and keeps all objects", func(ctx context.Context) {
		// The Deployments have no pods on this server. A process replaces them.
		m.endManagers(ctx)
		m.run(ctx, "upgrade", "apply", "--infrastructure=metal3:"+nextVersion)
		m.expectInstalled(ctx, nextVersion)
		m.expectKept(ctx, uids)
	})

	It("has a manager of the next version that serves its webhooks and reconciles", func(ctx context.Context) {
		m.startManagers(ctx, managers.Provider(program))
		invalid := build.Metal3Machine("still-invalid", clusterName)
		invalid.Spec.Image = nil
		Expect(m.server.Client.Create(ctx, invalid)).To(Satisfy(apierrors.IsInvalid))
		later := build.Metal3Cluster("later")
		Expect(m.server.Client.Create(ctx, later)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(m.server.Client.Get(ctx, client.ObjectKeyFromObject(later), later)).To(Succeed())
			g.Expect(later.Status.Conditions).NotTo(BeEmpty())
		}).Should(Succeed())
	})

	It("is replaced by CAPM3 again, with the command of the document", func(ctx context.Context) {
		m.endManagers(ctx)
		m.follow(ctx, "Return to CAPM3", filepath.Base(m.capm3))
		Expect(m.installedVersion(ctx)).To(Equal(filepath.Base(m.capm3)))
		Expect(m.managerImage(ctx)).To(HavePrefix("quay.io/metal3-io/"))
		for _, kind := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
			Expect(m.kubectl(ctx, "get", kind, "--output=name")).NotTo(ContainSubstring("metal3"),
				"a webhook without a manager would refuse every change")
		}
		m.expectKept(ctx, uids)
	})
}

// endManagers ends the managers that the specs have started. It also removes the address of their conversion webhook from
// the CRDs: clusterctl writes a Service there, and the API server does not accept both.
func (m *management) endManagers(ctx context.Context) {
	GinkgoHelper()
	for _, process := range m.processes {
		process.Child.Kill()
		Eventually(process.Child.Done()).Should(BeClosed())
	}
	m.processes = nil
	definitions := strings.Fields(m.kubectl(ctx, "get", "customresourcedefinitions", "--output=name",
		"--selector=cluster.x-k8s.io/provider=infrastructure-metal3"))
	Expect(definitions).NotTo(BeEmpty())
	for _, definition := range definitions {
		m.kubectl(ctx, "patch", definition, "--type=merge", `--patch={"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	}
}

// expectKept expects that objects exist with the same UIDs.
func (m *management) expectKept(ctx context.Context, uids map[client.Object]types.UID) {
	GinkgoHelper()
	for object, uid := range uids {
		Expect(m.server.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		Expect(object.GetUID()).To(Equal(uid), object.GetName())
		Expect(object.GetDeletionTimestamp()).To(BeNil(), object.GetName())
	}
}

// installedVersion returns the version of this provider in clusterctl's inventory.
func (m *management) installedVersion(ctx context.Context) string {
	GinkgoHelper()
	return m.kubectl(ctx, "get", "providers.clusterctl.cluster.x-k8s.io", "infrastructure-metal3",
		"--namespace=capm3-system", "--output=jsonpath={.version}")
}

// managerImage returns the image of the only Deployment of this provider.
func (m *management) managerImage(ctx context.Context) string {
	GinkgoHelper()
	var deployments appsv1.DeploymentList
	Expect(m.server.Client.List(ctx, &deployments, client.MatchingLabels{
		"cluster.x-k8s.io/provider": "infrastructure-metal3",
	})).To(Succeed())
	Expect(deployments.Items).To(HaveLen(1))
	return deployments.Items[0].Spec.Template.Spec.Containers[0].Image
}

// expectInstalled expects that clusterctl has installed a version of this provider, with one Deployment.
func (m *management) expectInstalled(ctx context.Context, version string) {
	GinkgoHelper()
	Expect(m.installedVersion(ctx)).To(Equal(version))
	Expect(m.managerImage(ctx)).To(HaveSuffix("cluster-api-provider-metal3:" + version))
}

var (
	upgradeCommand = regexp.MustCompile(`(?m)^ *(?:\$ )?clusterctl (upgrade apply .*)$`)
	versionInIt    = regexp.MustCompile(`metal3:v\S+`)
)

// follow runs clusterctl upgrade apply of a section of docs/migration-from-capm3.md, with the version that these specs use.
// A command without --config finds only the releases of CAPM3.
func (m *management) follow(ctx context.Context, section, version string) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(m.server.Root(), "docs", "migration-from-capm3.md"))
	Expect(err).NotTo(HaveOccurred())
	_, text, found := strings.Cut(string(content), "\n## "+section+"\n")
	Expect(found).To(BeTrue(), "the document has no section %s", section)
	text, _, _ = strings.Cut(text, "\n## ")
	match := upgradeCommand.FindStringSubmatch(text)
	Expect(match).NotTo(BeNil(), "section %s has no clusterctl upgrade apply", section)
	clusterctl := m.published
	before, after, isConfigured := strings.Cut(match[1], " --config clusterctl.yaml")
	if isConfigured {
		clusterctl = m.clusterctl
	}
	command := before + after
	Expect(versionInIt.MatchString(command)).To(BeTrue(), "%s names no version", command)
	_, err = clusterctl.Run(ctx, strings.Fields(versionInIt.ReplaceAllString(command, "metal3:"+version))...)
	Expect(err).NotTo(HaveOccurred())
}
