package main

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/timeline"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// clusterName is the cluster of the story.
const clusterName = "my-cluster"

// story is the state of the story in the lab.
type story struct {
	lab       *lab.Lab
	size      size
	screen    *screen
	namespace string

	// manager is the cluster that manages the hosts: first the management cluster, and after a pivot the cluster
	// itself.
	manager *lab.Cluster
	// managerName is its name in the timeline.
	managerName string
	// witness observes the VIP, and began is the start of that. Nil without a pivot.
	witness *witness.Witness
	began   time.Time
	// moved is the start of the move.
	moved time.Time

	// place is the cluster with the objects. hosts and machines are their numbers by state.
	place, hosts, machines timeline.Track

	// found is the state of the hosts before the first claim.
	found map[string]bmov1alpha1.BareMetalHostSpec
	// marks are the events, in order.
	marks []mark
}

// chapter is a part of the story.
type chapter struct {
	title string
	run   func(context.Context) error
}

// mark prints the duration of a step, and records its end.
type mark struct {
	what string
	took time.Duration
	at   time.Time
}

func (s *story) mark(what string, took time.Duration) {
	s.marks = append(s.marks, mark{what: what, took: took, at: time.Now()})
	s.screen.say("%s after %.1f s", what, took.Seconds())
}

// run runs the story, chapter by chapter.
func (s *story) run(ctx context.Context) error {
	chapters := s.life()
	if s.size.pivot {
		var err error
		if s.witness, err = s.lab.WatchIronic(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		defer func() { _ = s.witness.Stop() }()
		s.began = time.Now()
		chapters = s.pivot()
	}
	for _, chapter := range chapters {
		fmt.Println()
		s.screen.say("== %s", chapter.title)
		if err := chapter.run(ctx); err != nil {
			return err
		}
	}
	fmt.Println()
	for _, mark := range s.marks {
		fmt.Printf("%7.1f s  %s\n", mark.took.Seconds(), mark.what)
	}
	return nil
}

// life returns the chapters of a cluster from its creation to its deletion.
func (s *story) life() []chapter {
	nodes := s.size.controlPlanes + s.size.workers
	return []chapter{
		{"The hosts before the first claim", s.recordHosts},
		{fmt.Sprintf("A cluster with %d nodes", nodes), s.create},
		{"clusterctl describes it", s.describe},
		{"One more worker", func(ctx context.Context) error { return s.scale(ctx, s.size.workers+1) }},
		{"One worker less", func(ctx context.Context) error { return s.scale(ctx, s.size.workers) }},
		{"The cluster is deleted", s.remove},
		{"The hosts are restored", s.compare},
	}
}

func (s *story) recordHosts(ctx context.Context) error {
	seen, err := s.observe(ctx)
	if err != nil {
		return err
	}
	s.found = map[string]bmov1alpha1.BareMetalHostSpec{}
	for i := range seen.hosts {
		s.found[seen.hosts[i].Name] = seen.hosts[i].Spec
		s.screen.say("%s", row(seen.hosts[i].Name, describeHost(&seen.hosts[i])))
	}
	return nil
}

func (s *story) create(ctx context.Context) error {
	template := s.lab.Template()
	if s.size.pivot {
		template = s.lab.TemplateWithIronic()
		if err := s.lab.ShareIronic(ctx); err != nil {
			return err
		}
	}
	arguments := []string{
		"generate", "cluster", clusterName, "--from", template,
		"--target-namespace", s.namespace, "--kubernetes-version", binaries.KubernetesVersion,
		"--control-plane-machine-count", strconv.Itoa(s.size.controlPlanes),
		"--worker-machine-count", strconv.Itoa(s.size.workers),
	}
	s.screen.say("clusterctl %s | kubectl apply -f -", strings.Join(arguments, " "))
	manifest, err := s.manager.Clusterctl().Run(ctx, arguments...)
	if err != nil {
		return err
	}
	if _, err := s.manager.KubectlWithInput(ctx, strings.NewReader(manifest), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := s.untilRunning(ctx, s.size.controlPlanes+s.size.workers); err != nil {
		return err
	}
	return s.until(ctx, "the Cluster is available", world.available)
}

func (s *story) untilRunning(ctx context.Context, nodes int) error {
	return s.until(ctx, fmt.Sprintf("%d Machines run and their nodes are ready", nodes), func(seen world) bool {
		return len(seen.machines) == nodes && seen.running() == nodes
	})
}

func (s *story) describe(ctx context.Context) error {
	output, err := s.manager.Clusterctl().Run(ctx,
		"describe", "cluster", clusterName, "--namespace", s.namespace, "--echo")
	if err != nil {
		return err
	}
	fmt.Println(output)
	workload, err := s.lab.Workload(ctx, clusterName)
	if err != nil {
		return err
	}
	if output, err = workload.Kubectl(ctx, "get", "nodes,pods", "--all-namespaces", "--output", "wide"); err != nil {
		return err
	}
	fmt.Println(output)
	return nil
}

func (s *story) scale(ctx context.Context, workers int) error {
	arguments := []string{
		"scale", "machinedeployment", clusterName + "-workers", "--namespace", s.namespace,
		"--replicas", strconv.Itoa(workers),
	}
	s.screen.say("kubectl %s", strings.Join(arguments, " "))
	if _, err := s.manager.Kubectl(ctx, arguments...); err != nil {
		return err
	}
	return s.untilRunning(ctx, s.size.controlPlanes+workers)
}

func (s *story) remove(ctx context.Context) error {
	arguments := []string{"delete", "cluster", clusterName, "--namespace", s.namespace, "--wait=false"}
	s.screen.say("kubectl %s", strings.Join(arguments, " "))
	if _, err := s.manager.Kubectl(ctx, arguments...); err != nil {
		return err
	}
	return s.until(ctx, "all Machines are deleted and all hosts are free", func(seen world) bool {
		return len(seen.machines) == 0 && len(seen.metal3) == 0 && seen.free() == len(s.found)
	})
}

// compare returns an error if hosts or machines have leftovers of the cluster.
func (s *story) compare(ctx context.Context) error {
	seen, err := s.observe(ctx)
	if err != nil {
		return err
	}
	for i := range seen.hosts {
		host := &seen.hosts[i]
		machine := s.lab.Machine(host.Name)
		image, err := machine.Installed()
		switch {
		case err != nil:
			return err
		case !reflect.DeepEqual(host.Spec, s.found[host.Name]):
			return fmt.Errorf("the spec of host %s changed", host.Name)
		case len(host.Annotations) > 0, len(host.Labels) > 0:
			return fmt.Errorf("host %s has labels %v and annotations %v that it had not before",
				host.Name, host.Labels, host.Annotations)
		case machine.Running() && !machine.RunsRamdisk():
			return fmt.Errorf("the system of a Machine still runs on machine %s", host.Name)
		case image != "":
			return fmt.Errorf("the disk of machine %s was not wiped", host.Name)
		}
	}
	s.screen.say("%d hosts are as before the first claim", len(seen.hosts))
	s.screen.say("no node runs on any of the machines, and their disks are wiped")
	return nil
}
