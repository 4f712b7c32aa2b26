package main

import (
	"context"
	"fmt"
	"reflect"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// tell tells the story, chapter by chapter.
func tell(ctx context.Context, place *platform, hosts int) error {
	found := map[string]bmov1alpha1.BareMetalHostSpec{}
	for _, chapter := range []struct {
		title string
		tell  func(context.Context) error
	}{
		{"Hosts are registered and inspected", func(ctx context.Context) error { return place.addHosts(ctx, hosts, found) }},
		{"A cluster from the template \"development\" gets a host for its first machine", place.createFromTemplate},
		{"A second cluster gets three workers at once, and their nodes are linked", place.createWorkers},
		{"clusterctl describes both clusters", place.describe},
		{"Both clusters are deleted", place.deleteClusters},
		{"All hosts are free and as they were found", func(ctx context.Context) error { return place.compare(ctx, found) }},
	} {
		fmt.Println()
		place.say("== %s", chapter.title)
		if err := chapter.tell(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *platform) addHosts(ctx context.Context, count int, found map[string]bmov1alpha1.BareMetalHostSpec) error {
	for i := range count {
		host := build.Host(fmt.Sprintf("host-%d", i))
		if err := p.server.Client.Create(ctx, build.ControllerSecret(host)); err != nil {
			return err
		}
		if err := p.server.Client.Create(ctx, host); err != nil {
			return err
		}
	}
	err := p.until(ctx, "all hosts are available", func(seen world) bool {
		return inState(seen, bmov1alpha1.StateAvailable) == count
	})
	if err != nil {
		return err
	}
	seen, err := p.look(ctx)
	for _, host := range seen.hosts {
		found[host.Name] = host.Spec
	}
	return err
}

func inState(seen world, state bmov1alpha1.ProvisioningState) int {
	count := 0
	for _, host := range seen.hosts {
		if host.Status.Provisioning.State == state {
			count++
		}
	}
	return count
}

func (p *platform) createFromTemplate(ctx context.Context) error {
	p.say("clusterctl generate cluster demo --flavor development | kubectl apply -f -")
	manifest, err := p.clusterctl.Run(ctx, "generate", "cluster", "demo", "--flavor=development",
		"--target-namespace="+namespace, "--kubernetes-version=v1.36.0", "--control-plane-machine-count=1",
		"--worker-machine-count=1")
	if err != nil {
		return err
	}
	if err := p.apply(ctx, manifest); err != nil {
		return err
	}
	err = p.until(ctx, "the first host of the cluster is provisioned", func(seen world) bool {
		return conditionTrue(seen, infrav1.HostProvisionedCondition) == 1
	})
	if err != nil {
		return err
	}
	p.say("The host \"runs\" its image. No kubelet runs here, so the API server of this cluster never answers, its")
	p.say("control plane waits for its first node, and its worker waits for bootstrap data.")
	return nil
}

func conditionTrue(seen world, condition string) int {
	count := 0
	for _, machine := range seen.metal3 {
		if meta.IsStatusConditionTrue(machine.Status.Conditions, condition) {
			count++
		}
	}
	return count
}

func (p *platform) describe(ctx context.Context) error {
	for _, cluster := range []string{"demo", workersCluster} {
		output, err := p.clusterctl.Run(ctx, "describe", "cluster", cluster, "--namespace="+namespace, "--echo")
		if err != nil {
			return err
		}
		fmt.Println(output)
	}
	return nil
}

func (p *platform) deleteClusters(ctx context.Context) error {
	if _, err := p.server.Kubectl(ctx, "delete", "cluster", "--all", "-n", namespace, "--wait=false"); err != nil {
		return err
	}
	if err := p.until(ctx, "all machines are gone and all hosts are available", func(seen world) bool {
		return len(seen.metal3) == 0 && len(seen.machines) == 0 &&
			inState(seen, bmov1alpha1.StateAvailable) == len(seen.hosts)
	}); err != nil {
		return err
	}
	return nil
}

// compare shows that nothing of the clusters stayed on the hosts.
func (p *platform) compare(ctx context.Context, found map[string]bmov1alpha1.BareMetalHostSpec) error {
	var count int
	err := p.until(ctx, "nothing of the clusters is left on any host", func(seen world) bool {
		count = len(seen.hosts)
		return leftOn(seen.hosts, found) == ""
	})
	if err != nil {
		return err
	}
	p.say("%d hosts compared with what they were before the first claim: no difference", count)
	return nil
}

func leftOn(hosts []bmov1alpha1.BareMetalHost, found map[string]bmov1alpha1.BareMetalHostSpec) string {
	for _, host := range hosts {
		if !reflect.DeepEqual(host.Spec, found[host.Name]) || len(host.Annotations) > 0 || len(host.Labels) > 0 {
			return host.Name
		}
	}
	return ""
}
