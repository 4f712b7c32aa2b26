package host_test

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeMove has the stories in this order: without the webhook, with it but without a server, and complete.
func describeMove(s *suite) {
	It("is seen without its pause if there is no webhook", func(ctx context.Context) {
		current := s.host(ctx, build.Paused(infrav1.HostPausedByProvider))
		seen := s.sights(ctx, current)
		Expect(s.moveAway(ctx, current)).To(Succeed())
		Expect(seen()).To(ContainElement(sight{Deleting: true}), "the following stories require this")
	})

	It("cannot be updated without a webhook server, unlike other hosts", func(ctx context.Context) {
		s.configure(ctx)
		current := s.host(ctx, build.Paused(infrav1.HostPausedByProvider), build.Available())
		// The API server observes the webhook after a moment.
		Eventually(func() error { return s.mark(ctx, current) }).Should(MatchError(ContainSubstring("connection refused")))
		Expect(s.paused(ctx, current)).To(BeTrue(), "a refused write changes nothing")

		key := client.ObjectKeyFromObject(current)
		for _, edit := range []func(*bmov1alpha1.BareMetalHost){
			func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = true },
			func(host *bmov1alpha1.BareMetalHost) { host.Annotations["example.com/asset"] = "4711" },
			func(host *bmov1alpha1.BareMetalHost) { host.Annotations = nil },
			func(host *bmov1alpha1.BareMetalHost) {
				host.Annotations = map[string]string{
					infrav1.DeleteForMoveAnnotation: "", bmov1alpha1.PausedAnnotation: "maintenance",
				}
			},
			func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = false },
			func(host *bmov1alpha1.BareMetalHost) { host.Finalizers = nil },
		} {
			stage.Change(ctx, s.server.Client, key, &bmov1alpha1.BareMetalHost{}, edit)
		}
		stage.ChangeStatus(ctx, s.server.Client, key, &bmov1alpha1.BareMetalHost{},
			func(host *bmov1alpha1.BareMetalHost) { host.Status.PoweredOn = true })
		Expect(s.server.Client.Delete(ctx, current)).To(Succeed())
	})

	It("lets a Metal3Machine with an unchanged spec pass", func(ctx context.Context) {
		machine, key := s.machine.DeepCopy(), client.ObjectKeyFromObject(s.machine)
		tries := 0
		Eventually(func() error {
			tries++
			patch := fmt.Sprintf(`{"spec":{"hostSelector":{"matchLabels":{"try":"%d"}}}}`, tries)
			return s.server.Client.Patch(ctx, machine.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		}).Should(MatchError(ContainSubstring("connection refused")), "a changed spec is validated")
		other := build.Metal3Machine("other", "cluster", build.InNamespace(s.machine.Namespace))
		Expect(s.server.Client.Create(ctx, other)).To(MatchError(ContainSubstring("connection refused")),
			"a new spec is validated")
		for _, edit := range []func(*infrav1.Metal3Machine){
			func(machine *infrav1.Metal3Machine) { machine.Finalizers = []string{infrav1.MachineFinalizer} },
			func(machine *infrav1.Metal3Machine) { machine.Labels = map[string]string{"a": "b"} },
			func(machine *infrav1.Metal3Machine) {
				machine.Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
			},
		} {
			stage.Change(ctx, s.server.Client, key, machine, edit)
		}
		Expect(s.server.Client.Delete(ctx, machine)).To(Succeed())
		stage.Change(ctx, s.server.Client, key, machine,
			func(machine *infrav1.Metal3Machine) { machine.Finalizers = nil })
	})

	Context("with the webhook", Ordered, func() {
		BeforeAll(func() { s.serve() })

		DescribeTable("stays paused until it is gone",
			func(ctx context.Context, want string, options ...build.HostOption) {
				current := s.host(ctx, options...)
				seen := s.sights(ctx, current)
				Expect(s.moveAway(ctx, current)).To(Succeed())
				all := seen()
				Expect(all).To(HaveEach(And(HaveField("Paused", true), HaveField("Value", want))))
				Expect(all).To(ContainElement(HaveField("Deleting", true)))
			},
			Entry("when the move paused it", infrav1.HostPausedByProvider, build.Paused(infrav1.HostPausedByProvider)),
			Entry("when a user paused it", "maintenance", build.Paused("maintenance")),
			Entry("when it was not paused", infrav1.HostPausedByProvider),
		)

		It("loses only its annotations", func(ctx context.Context) {
			current := s.host(ctx, build.Provisioned(), build.Labels(map[string]string{"a": "b"}),
				build.Annotations(map[string]string{"example.com/asset": "4711"}))
			Expect(s.mark(ctx, current)).To(Succeed())
			after := &bmov1alpha1.BareMetalHost{}
			Expect(s.server.Client.Get(ctx, client.ObjectKeyFromObject(current), after)).To(Succeed())
			Expect(after.Annotations).To(Equal(map[string]string{
				infrav1.DeleteForMoveAnnotation: "", bmov1alpha1.PausedAnnotation: infrav1.HostPausedByProvider,
				infrav1.PauseReasonAnnotation: pivot.PauseReason(pivot.Pause),
			}))
			Expect(after.Spec).To(Equal(current.Spec))
			Expect(after.Status).To(Equal(current.Status))
			Expect(after.Labels).To(Equal(current.Labels))
			Expect(after.Finalizers).To(Equal(current.Finalizers))
			Expect(after.Generation).To(Equal(current.Generation))
		})

		DescribeTable("is paused when it is created without its status",
			func(ctx context.Context, want bool, options ...build.HostOption) {
				namespace := stage.Namespace(ctx, s.server)
				current := build.Host("host", append([]build.HostOption{build.InNamespace(namespace)}, options...)...)
				Expect(s.server.Client.Create(ctx, current)).To(Succeed())
				Expect(s.paused(ctx, current)).To(Equal(want))
			},
			Entry("with an image", true, build.Provisioned(), build.Finalizers(bmov1alpha1.BareMetalHostFinalizer)),
			Entry("with an image and annotations", true, build.Provisioned(),
				build.Finalizers(bmov1alpha1.BareMetalHostFinalizer), build.Annotations(map[string]string{"a": "b"})),
			Entry("not with its status", false, build.Provisioned(),
				build.Finalizers(bmov1alpha1.BareMetalHostFinalizer),
				build.Annotations(map[string]string{bmov1alpha1.StatusAnnotation: "{}"})),
			Entry("not without an image", false, build.Finalizers(bmov1alpha1.BareMetalHostFinalizer)),
			Entry("not a new host", false, build.Provisioned()),
		)

		It("is not created again in the source", func(ctx context.Context) {
			namespace := stage.Namespace(ctx, s.server)
			manifest := func(name string, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
				return build.Host(name, append([]build.HostOption{build.InNamespace(namespace)}, options...)...)
			}
			leaves := pivot.Departure{Infras: map[string]pivot.Epoch{"cluster": 1}}
			leaves.Enter([]*bmov1alpha1.BareMetalHost{manifest("host"), manifest("back")})
			memory := departure.New(s.server.Client)
			Expect(memory.Remember(ctx, namespace, leaves)).To(Succeed())
			Expect(s.server.Client.Create(ctx, manifest("host"))).To(MatchError(And(
				ContainSubstring("again.baremetalhost.metal3.io"), ContainSubstring("host moved to another management cluster"),
				ContainSubstring("clusterctl metal3 pivot forget --namespace "+namespace+" --host host"))))
			renamed := manifest("renamed")
			renamed.Spec.BootMACAddress = manifest("host").Spec.BootMACAddress
			Expect(s.server.Client.Create(ctx, renamed)).To(MatchError(ContainSubstring("host moved to another")))
			Expect(s.server.Client.Create(ctx, manifest("new"))).To(Succeed())
			Expect(s.server.Client.Create(ctx, manifest("back", build.Paused(infrav1.HostPausedByProvider),
				build.Annotations(map[string]string{bmov1alpha1.StatusAnnotation: "{}"})))).To(Succeed())
			elsewhere := build.Host("host", build.InNamespace(stage.Namespace(ctx, s.server)))
			Expect(s.server.Client.Create(ctx, elsewhere)).To(Succeed())
			returned := build.Metal3Cluster("cluster", build.InNamespace(namespace),
				build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: "2"}))
			Expect(memory.Forget(ctx, returned, nil)).To(Succeed())
			Expect(s.server.Client.Create(ctx, manifest("host"))).To(Succeed())
		})

		It("is not created while the record of departures is invalid", func(ctx context.Context) {
			namespace := stage.Namespace(ctx, s.server)
			unreadable := &corev1.ConfigMap{Data: map[string]string{"hosts": "{"}}
			unreadable.Namespace, unreadable.Name = namespace, pivot.DepartureName
			Expect(s.server.Client.Create(ctx, unreadable)).To(Succeed())
			Expect(s.server.Client.Create(ctx, build.Host("host", build.InNamespace(namespace)))).To(
				MatchError(ContainSubstring("creating the host host: parsing key hosts of ConfigMap metal3-moved-away")))
		})

		It("stays paused when clusterctl repeats its write", func(ctx context.Context) {
			current := s.host(ctx, build.Paused("maintenance"))
			seen := s.sights(ctx, current)
			Expect(s.mark(ctx, current)).To(Succeed())
			Expect(s.server.Client.Delete(ctx, current)).To(Succeed())
			Expect(s.moveAway(ctx, current)).To(Succeed())
			Expect(seen()).To(HaveEach(HaveField("Value", "maintenance")))
		})
	})
}

// host creates a host with a finalizer of BMO.
func (s *suite) host(ctx context.Context, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
	GinkgoHelper()
	namespace := stage.Namespace(ctx, s.server)
	options = append([]build.HostOption{
		build.InNamespace(namespace), build.Finalizers(bmov1alpha1.BareMetalHostFinalizer),
	}, options...)
	current := build.Host("host", options...)
	Expect(build.CreateWithStatus(ctx, s.server.Client, current)).To(Succeed())
	return current
}

// moveAway changes and deletes a host as clusterctl move does in the source.
func (s *suite) moveAway(ctx context.Context, current *bmov1alpha1.BareMetalHost) error {
	if err := s.mark(ctx, current); err != nil {
		return err
	}
	if err := s.server.Client.Delete(ctx, current.DeepCopy()); err != nil {
		return err
	}
	return s.server.Client.Patch(ctx, current.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":[]}}`)))
}

func (s *suite) mark(ctx context.Context, current *bmov1alpha1.BareMetalHost) error {
	return s.server.Client.Patch(ctx, current.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(
		`[{"op":"add","path":"/metadata/annotations","value":{"`+infrav1.DeleteForMoveAnnotation+`":""}}]`)))
}

func (s *suite) paused(ctx context.Context, current *bmov1alpha1.BareMetalHost) bool {
	GinkgoHelper()
	now := &bmov1alpha1.BareMetalHost{}
	Expect(s.server.Client.Get(ctx, client.ObjectKeyFromObject(current), now)).To(Succeed())
	return sightOf(now).Paused
}
