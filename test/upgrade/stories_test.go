package upgrade_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/installation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeTakeover has the stories of the upgrade from CAPM3 to this provider.
func describeTakeover(w *world) {
	It("begins with 20 machines", func(ctx context.Context) {
		w.populate(ctx)
		w.recordObjects(ctx)
		Expect(w.machines).To(HaveLen(running + 1))
	})

	It("is reconciled by CAPM3", func(ctx context.Context) {
		w.startCAPM3(ctx, "capm3-before")
		Eventually(func(g Gomega) {
			for i := range running {
				old := w.machine(ctx, g, machineName(i)).Status.Deprecated
				g.Expect(old).NotTo(BeNil(), "CAPM3 has not written %s", machineName(i))
			}
		}).Should(Succeed())
		w.quiet(ctx)
		w.untouched(ctx)
		w.stopCAPM3()
		w.recordObjects(ctx)
	})

	It("has a remediation that CAPM3 started", func(ctx context.Context) {
		w.remediate(ctx, rebooted)
	})

	It("has a backup of all objects, as in the document", func(ctx context.Context) {
		folder := GinkgoT().TempDir()
		w.bash(ctx, folder, w.blocks("Before you begin", "sh")[0])
		file := filepath.Join(folder, "before.yaml")
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		for _, kind := range []string{
			"Cluster", "Machine", "BareMetalHost", "Secret", "Metal3Cluster", "Metal3Machine", "Metal3Data", "Metal3DataClaim",
			"Metal3DataTemplate", "Metal3Remediation", "IPPool", "IPClaim", "IPAddress",
		} {
			Expect(string(content)).To(ContainSubstring("\n  kind: "+kind+"\n"), kind)
		}
		info, err := os.Stat(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600), "it contains Secrets")
		var machines infrav1.Metal3MachineList
		Expect(w.server.Client.List(ctx, &machines)).To(Succeed())
		Expect(w.bash(ctx, folder, w.blocks("Before you begin", "sh")[1])).To(Equal(strconv.Itoa(len(machines.Items)) + "\n"))
	})

	It("passes the checks before the upgrade in the document", func(ctx context.Context) {
		w.answers = w.checks(ctx, "Before you begin")
		Expect(w.answers).To(HaveLen(4))
		Expect(w.answers).To(HaveEach(ContainSubstring("NAME")))
		Expect(w.answers).To(ContainElement(MatchRegexp(`(?m)^%s +%s +provisioned +%s +true$`,
			w.namespace, hostOf(machineName(0)), machineName(0))))
	})

	It("keeps ready machines ready", func(ctx context.Context) {
		Expect(w.oldConditions(ctx, Default)).To(ContainElements(clusterName+": Ready", machineName(0)+": Ready"))
		unready := w.watch(ctx)
		config := installation.Config(ctx, w.server, installation.Role(ctx, w.server, "role.yaml"))
		var err error
		w.server.Webhook, err = w.server.NewWebhookServer("manager")
		Expect(err).NotTo(HaveOccurred())
		w.manager = installation.Run(ctx, w.server, config)
		for i := range running {
			w.eventually(ctx, machineName(i), infrav1.NodeLinkedCondition, stage.IsTrue())
			w.eventually(ctx, machineName(i), infrav1.ReadyCondition, stage.IsTrue())
		}
		seen := unready()
		delete(seen, waiting)
		Expect(seen).To(BeEmpty())
	})

	It("finishes the remediation", func(ctx context.Context) {
		request := &infrav1.Metal3Remediation{}
		Eventually(func(g Gomega) {
			g.Expect(w.server.Client.Get(ctx, w.key(rebooted), request)).To(Succeed())
			g.Expect(request.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, stage.IsTrue()))
		}).Should(Succeed())
		host := w.host(ctx, Default, hostOf(rebooted))
		Expect(host.Status.PoweredOn).To(BeTrue())
		Expect(host.Annotations).NotTo(HaveKey(HavePrefix(infrav1.RemediationRebootPrefix)))
		node := &corev1.Node{}
		Expect(w.server.Client.Get(ctx, client.ObjectKey{Name: rebooted}, node)).To(Succeed())
		Expect(node.Spec.Taints).NotTo(ContainElement(HaveField("Key", corev1.TaintNodeOutOfService)))
		Expect(w.server.Client.Delete(ctx, request)).To(Succeed())
		w.gone(ctx, rebooted, request)
	})

	It("names the permission that a guarded ownerReference requires", func(ctx context.Context) {
		w.eventually(ctx, guarded, infrav1.HostProvisionedCondition, And(
			stage.IsTrueBecause(infrav1.ProvisioningFailedReason),
			HaveField("Message", ContainSubstring("the permission to delete BareMetalHosts"))))
		w.eventually(ctx, guarded, infrav1.ReadyCondition, stage.IsTrue())
		host := w.host(ctx, Default, hostOf(guarded))
		Expect(host.OwnerReferences).NotTo(BeEmpty())
		Expect(host.Annotations).NotTo(HaveKey(infrav1.BlockMoveAnnotation))
		installation.Follow(ctx, w.server, "installation.md", "Where owner references are guarded")
		stage.Change(ctx, w.server.Client, w.key(hostOf(guarded)), host, func(host *bmov1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&host.ObjectMeta, "example.com/permission", "granted")
		})
		w.eventually(ctx, guarded, infrav1.HostProvisionedCondition, stage.IsTrueBecause(infrav1.HostProvisionedReason))
		w.eventually(ctx, guarded, infrav1.ReadyCondition, stage.IsTrue())
		Expect(w.host(ctx, Default, hostOf(guarded)).OwnerReferences).To(BeEmpty())
	})

	It("changes no host and sends no more writes", func(ctx context.Context) {
		for name := range w.hosts {
			Eventually(func(g Gomega) {
				g.Expect(w.host(ctx, g, name).Annotations).NotTo(HaveKey(infrav1.BlockMoveAnnotation))
			}).Should(Succeed(), name)
		}
		w.quiet(ctx)
		w.untouched(ctx)
		for name, before := range w.machines {
			now := w.machine(ctx, Default, name)
			Expect(now.Spec).To(Equal(before.Spec), name)
			Expect(now.Status.UserData).To(Equal(before.Status.UserData), name)
			Expect(now.Status.MetaData).To(Equal(before.Status.MetaData), name)
			Expect(now.Status.NetworkData).To(Equal(before.Status.NetworkData), name)
			Expect(now.Status.RenderedData).To(Equal(before.Status.RenderedData), name)
		}
	})

	It("removes the conditions of CAPM3 in the format of v1beta1", func(ctx context.Context) {
		Eventually(func(g Gomega) { g.Expect(w.oldConditions(ctx, g)).To(BeEmpty()) }).Should(Succeed())
	})

	It("passes the checks after the upgrade in the document", func(ctx context.Context) {
		answers := w.checks(ctx, "Replace")
		repeated := 0
		for command, answer := range answers {
			before, isRepeated := w.answers[command]
			switch {
			case isRepeated:
				Expect(answer).To(Equal(before), command)
				repeated++
			case strings.Contains(command, "metal3machines"):
				Expect(answer).To(MatchRegexp(`(?m)^%s +True `, machineName(0)))
			case strings.Contains(command, "LeftoversRemoved"):
				Expect(answer).To(ContainSubstring(" LeftoversRemoved "))
			}
		}
		Expect(repeated).To(Equal(1), "the hosts")
	})

	It("releases a host with the networkData of its administrator", func(ctx context.Context) {
		w.released(ctx, siteNetwork)
		Expect(w.host(ctx, Default, hostOf(siteNetwork)).Spec.NetworkData).To(HaveField("Name", "site-network"))
		w.released(ctx, ownNetwork)
		Expect(w.host(ctx, Default, hostOf(ownNetwork)).Spec.NetworkData).To(BeNil())
	})

	It("releases the address that CAPM3 claimed", func(ctx context.Context) {
		Expect(w.allocations(ctx, w.namespace)).To(HaveKey("template-0-pool"))
		w.released(ctx, rendered)
		w.gone(ctx, "template-0", &infrav1.Metal3Data{})
		w.gone(ctx, "template-0-pool", &metal3ipamv1.IPClaim{})
		w.gone(ctx, rendered+"-metadata", &corev1.Secret{})
	})

	It("removes the ownerReference of a host before it is garbage collected", func(ctx context.Context) {
		machine := w.machine(ctx, Default, guarded)
		w.create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "collected", OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(machine, infrav1.GroupVersion.WithKind("Metal3Machine")),
			},
		}})
		w.released(ctx, guarded)
		w.gone(ctx, "collected", &corev1.ConfigMap{})
		Expect(w.host(ctx, Default, hostOf(guarded)).DeletionTimestamp).To(BeNil())
	})
}

// describeReturn has the stories of the return to CAPM3.
func describeReturn(w *world) {
	const later = "machine-20"

	It("reports the user data of machines that wait for data, as CAPM3 requires", func(ctx context.Context) {
		w.create(ctx, build.Metal3Machine(later, clusterName, build.InNamespace(w.namespace),
			build.OwnedBy(w.owner(ctx, later)), waitingForData(w.namespace),
			stage.With(func(machine *infrav1.Metal3Machine) { machine.Spec.FailureDomainPolicy = infrav1.FailureDomainStrict })))
		for _, name := range []string{later, waiting} {
			Eventually(func(g Gomega) {
				g.Expect(w.machine(ctx, g, name).Status.UserData).To(Equal(w.secret(secretOf(name))), name)
			}).Should(Succeed())
			w.eventually(ctx, name, infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.DataFailedReason,
				"Metal3DataTemplate "+lateTemplate+" does not exist."))
		}
	})

	It("lists and removes fields that CAPM3 lacks, as in the document", func(ctx context.Context) {
		// Without an owner, so that the manager manages no endpoint for it.
		const withIronic = "with-ironic"
		w.create(ctx, build.Metal3Cluster(withIronic, build.InNamespace(w.namespace),
			stage.With(func(infra *infrav1.Metal3Cluster) {
				infra.Spec.Ironic = &infrav1.Ironic{ClusterID: "one", Endpoint: infrav1.IronicEndpoint{
					VirtualIPs: []string{"192.0.2.20"}, CIDRs: []string{"192.0.2.0/24"}, Interface: "provisioning",
				}}
			})))
		template := &infrav1.Metal3MachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "workers"}}
		template.Spec.Template.Spec = build.Metal3Machine("any", clusterName).Spec
		template.Spec.Template.Spec.FailureDomainPolicy = infrav1.FailureDomainStrict
		w.create(ctx, template)
		lists := w.commands("Return to CAPM3")
		Expect(lists).To(HaveLen(6))
		const ironic, ironicTemplates, policies, strictTemplates, formats, templates = 0, 1, 2, 3, 4, 5
		shows := func(list int, row string) {
			GinkgoHelper()
			Expect(w.bash(ctx, GinkgoT().TempDir(), lists[list])).To(MatchRegexp(`(?m)^` + row + `$`))
		}
		shows(ironic, withIronic+` +one`)
		shows(ironicTemplates, `NAME +IRONIC`)
		shows(policies, later+` +Strict`)
		shows(strictTemplates, `workers +Strict`)
		for _, name := range []string{later, waiting} {
			shows(formats, name+` +<none> +<none>`)
		}
		shows(templates, `workers +<none>`)

		removals, formatting := w.blocks("Return to CAPM3", "sh")[0], w.blocks("Return to CAPM3", "sh")[1]
		names := []string{"my-cluster", withIronic, "my-template", "workers", "--namespace metal3", "--namespace " + w.namespace}
		for _, name := range []string{later, waiting} {
			w.bash(ctx, GinkgoT().TempDir(), strings.NewReplacer(append(names, "my-machine", name)...).Replace(formatting))
		}
		w.bash(ctx, GinkgoT().TempDir(), strings.NewReplacer(append(names, "my-machine", later)...).Replace(removals))

		shows(ironic, withIronic+` +<none>`)
		shows(policies, later+` +<none>`)
		shows(strictTemplates, `workers +<none>`)
		for _, name := range []string{later, waiting} {
			shows(formats, name+` +<none> +qcow2`)
		}
		shows(templates, `workers +qcow2`)
	})

	It("leaves annotations that block a move, which the document removes", func(ctx context.Context) {
		infra := &infrav1.Metal3Cluster{}
		Expect(w.server.Client.Get(ctx, w.key(clusterName), infra)).To(Succeed())
		Expect(infra.Annotations).To(HaveKey(infrav1.BlockMoveAnnotation))
		w.manager.Stop()
		installation.Follow(ctx, w.server, "migration-from-capm3.md", "After the return")
		Expect(w.server.Client.Get(ctx, w.key(clusterName), infra)).To(Succeed())
		Expect(infra.Annotations).NotTo(HaveKey(infrav1.BlockMoveAnnotation))
		w.recordObjects(ctx)
	})

	It("is reconciled by CAPM3 again", func(ctx context.Context) {
		w.startCAPM3(ctx, "capm3-after")
		w.create(ctx, dataTemplate(w.namespace, lateTemplate))
		for _, name := range []string{later, waiting} {
			Eventually(func(g Gomega) {
				_, host := hostAnnotation(w.machine(ctx, g, name))
				spec := w.host(ctx, g, host).Spec
				g.Expect(spec.Image).To(HaveField("URL", build.ImageURL))
				g.Expect(spec.UserData).To(HaveField("Name", secretOf(name)))
				g.Expect(spec.MetaData).To(HaveField("Name", name+"-metadata"))
			}).Should(Succeed(), name)
		}
		for i := range running {
			name := machineName(i)
			if name == siteNetwork || name == ownNetwork || name == guarded || name == rendered {
				continue
			}
			w.eventually(ctx, name, infrav1.ReadyCondition, stage.IsTrue())
			before := w.hosts[hostOf(name)]
			Expect(w.host(ctx, Default, hostOf(name)).Spec).To(Equal(before.Spec), name)
		}
		ready := w.bash(ctx, GinkgoT().TempDir(), w.commands("After the return")[0])
		Expect(ready).To(MatchRegexp(`(?m)^%s +True$`, machineName(running-2)))
		w.released(ctx, machineName(running-2))
		host := w.host(ctx, Default, hostOf(machineName(running-2)))
		Expect(host.Spec.Image).To(BeNil())
		Expect(host.Spec.UserData).To(BeNil())
		w.stopCAPM3()
	})
}
