package plugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const image = "http://images.example/x.img"

// describeKeeping has the stories of held hosts. test/move has such stories with the real BMO.
func describeKeeping(c *clusters) {
	var w world
	keep := func(ctx context.Context, host, flags string) ran {
		return runOn(ctx, c.source.Kubeconfig, "", w.namespace, fmt.Sprintf("keep --host=%s %s", host, flags))
	}
	begin := func(ctx context.Context) {
		GinkgoHelper()
		w = settle(ctx, c.source, stage.Namespace(ctx, c.source))
		DeferCleanup(func(ctx context.Context) {
			for _, host := range w.hosts(ctx) {
				host.Finalizers = nil
				Expect(client.IgnoreNotFound(w.client.Update(ctx, &host))).To(Succeed())
			}
		})
	}

	It("refuses a host that no move holds, and requires a name", func(ctx context.Context) {
		begin(ctx)
		Expect(keep(ctx, "", "")).To(end(2, "--host is empty: name the BareMetalHost"))
		Expect(keep(ctx, "missing", "")).To(end(2, `"missing" not found`))
		Expect(keep(ctx, "host", "")).To(end(1, "BareMetalHost host is Running, so pivot keep does not apply to it: see pivot status"))
	})

	It("marks a host that lost its status as provisioned, unless a Metal3Machine claims it", func(ctx context.Context) {
		begin(ctx)
		lost := func(name string, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
			host := build.Host(name, append(options, build.Paused(infrav1.HostPausedByProvider))...)
			host.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer}
			host.Spec.Online, host.Spec.Image = true, &bmov1alpha1.Image{URL: image, Checksum: "x"}
			host.Status = bmov1alpha1.BareMetalHostStatus{}
			return host
		}
		reserved := lost("reserved")
		reserved.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "Reservation", Name: "machine"}
		w.create(ctx, lost("own"), lost("claimed",
			build.Consumed(build.Metal3Machine("machine", clusterName, build.InNamespace(w.namespace)))),
			lost("unclaimed", build.Consumed(build.Metal3Machine("gone", clusterName, build.InNamespace(w.namespace)))),
			reserved)
		Expect(keep(ctx, "claimed", "")).To(end(1, "BareMetalHost claimed lost its status", "wait until its Node joins"))
		for _, name := range []string{"unclaimed", "reserved"} {
			Expect(keep(ctx, name, "")).To(end(0, "Done."))
			Expect(w.host(ctx, name).Annotations).NotTo(HaveKey(bmov1alpha1.PausedAnnotation))
		}
		verified := func(status metav1.ConditionStatus) {
			w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) { infra.Status.Conditions[0].Status = status })
		}
		verified(metav1.ConditionFalse)
		Expect(keep(ctx, "own", "")).To(end(1, "the Ironic endpoint that serves BareMetalHost own is not verified"))
		verified(metav1.ConditionTrue)
		w.pause(ctx)
		Expect(keep(ctx, "own", "")).To(end(1, "BareMetalHost own is paused with its Cluster"))
		w.unpauseCluster(ctx)
		Expect(w.host(ctx, "own").Annotations).To(HaveKey(bmov1alpha1.PausedAnnotation))
		Expect(keep(ctx, "own", "--yes=false")).To(end(1, "not confirmed: nothing was done"))
		Expect(keep(ctx, "own", "--dry-run")).To(end(0, "Dry run: Changed BareMetalHost own"))
		Expect(w.host(ctx, "own").Annotations).NotTo(HaveKey(bmov1alpha1.StatusAnnotation))

		told := keep(ctx, "own", "-o json")
		Expect(told).To(end(0))
		Expect(told.decode()).To(And(HaveKeyWithValue("kind", "PivotKeep"), HaveKeyWithValue("done", true)))
		Expect(w.host(ctx, "own").Annotations).To(And(Not(HaveKey(bmov1alpha1.PausedAnnotation)),
			HaveKeyWithValue(bmov1alpha1.StatusAnnotation, MatchJSON(`{"operationalStatus": "OK", "errorMessage": "",
				"errorCount": 0, "poweredOn": true, "provisioning": {"state": "provisioned", "ID": "",
				"image": {"url": "`+image+`", "checksum": "x"}}}`))))
	})

	It("keeps a newer status only if BMO would not wipe the host", func(ctx context.Context) {
		begin(ctx)
		outdated := func(name, spec string) *bmov1alpha1.BareMetalHost {
			host := arrived(build.Host(name, build.Provisioned()))
			host.Spec.Image = &bmov1alpha1.Image{URL: spec}
			host.Status.Provisioning.Image = bmov1alpha1.Image{URL: image}
			host.Status.LastUpdated = &metav1.Time{Time: time.Now().Truncate(time.Second)}
			return host
		}
		free := outdated("free", image)
		free.Spec.Image, free.Status.Provisioning.Image = nil, bmov1alpha1.Image{}
		free.Status.Provisioning.State = bmov1alpha1.StateAvailable
		w.create(ctx, outdated("same", image), outdated("other", "http://images.example/y.img"), free)
		Expect(keep(ctx, "free", "")).To(end(0, "Done."))
		Expect(w.host(ctx, "free").Annotations).NotTo(HaveKey(bmov1alpha1.StatusAnnotation))
		Expect(keep(ctx, "other", "")).To(end(1, "does not run the image of its spec, so BMO would wipe it"))
		Expect(w.host(ctx, "other").Annotations).To(HaveKey(bmov1alpha1.StatusAnnotation))
		Expect(keep(ctx, "same", "")).To(end(0, "Done."))
		Expect(w.host(ctx, "same").Annotations).To(And(HaveKey(bmov1alpha1.PausedAnnotation),
			Not(HaveKey(bmov1alpha1.StatusAnnotation)), Not(HaveKey(infrav1.StatusOriginAnnotation))))
	})

	It("replaces a host that was being deleted when it arrived, with the objects that it owns", func(ctx context.Context) {
		begin(ctx)
		half := arrived(build.Host("half", build.Provisioned()))
		half.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer}
		w.create(ctx, half)
		credentials := build.ControllerSecret(half, build.OwnedBy(half))
		w.create(ctx, credentials)
		Expect(w.client.Delete(ctx, w.host(ctx, "half"))).To(Succeed())
		old := w.host(ctx, "half")

		backup := filepath.Join(GinkgoT().TempDir(), "half.yaml")
		Expect(os.WriteFile(backup, []byte("of an earlier try"), 0o600)).To(Succeed())
		Expect(keep(ctx, "half", "--backup="+backup)).To(end(2, "file exists", "use another --backup"))
		Expect(w.host(ctx, "half").UID).To(Equal(old.UID), "nothing is removed before it is saved")

		Expect(os.Remove(backup)).To(Succeed())
		Expect(keep(ctx, "half", "--backup="+backup)).To(end(0, "Saved 2 objects in "+backup, "Done."))
		fresh := w.host(ctx, "half")
		Expect(fresh.UID).NotTo(Equal(old.UID))
		Expect(fresh.DeletionTimestamp).To(BeNil())
		Expect(fresh.Spec).To(Equal(old.Spec))
		Expect(fresh.Annotations).To(Equal(old.Annotations))
		secret := &corev1.Secret{}
		Expect(w.client.Get(ctx, client.ObjectKeyFromObject(credentials), secret)).To(Succeed())
		Expect(secret.Data).To(Equal(credentials.Data))
		Expect(secret.OwnerReferences).To(ConsistOf(HaveField("UID", fresh.UID)))
		Expect(os.Stat(backup)).To(HaveField("Mode()", BeNumerically("==", 0o600)))
		saved, err := os.ReadFile(backup)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(saved)).To(And(ContainSubstring("kind: BareMetalHost"), ContainSubstring("kind: Secret"),
			Not(ContainSubstring("uid: "+string(old.UID)))))
	})
}

// arrived sets the annotations of a host that was copied from another cluster a minute ago and is held.
func arrived(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	then := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	host.Annotations = map[string]string{
		bmov1alpha1.PausedAnnotation:   infrav1.HostPausedByProvider,
		infrav1.StatusOriginAnnotation: "uid-there",
		bmov1alpha1.StatusAnnotation: fmt.Sprintf(
			`{"lastUpdated": %q, "provisioning": {"state": "provisioned", "ID": ""}}`, then),
	}
	return host
}
