package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

const (
	// dataTemplate is the template of all claims.
	dataTemplate = "nodes"

	// goalDataWrites is the maximum number of writes per claim.
	goalDataWrites = 5

	// goalDataExponent is the maximum growth of the time with the number of claims.
	goalDataExponent = 1.1
)

// dataSession measures the time until the data of many claims of one template is rendered.
type dataSession struct {
	*session
	rendered time.Duration
	requests []env.Request
}

// measureData measures claims of one template in all sizes. After it has printed all sizes, it returns an error if a
// goal is missed.
func measureData(ctx context.Context, settings settings) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "claims\trendered\tgrowth\tprocessor\twrites each\tof a template\tconflicts")
	var before *dataSession
	var missed []error
	for _, size := range settings.sizes {
		s, err := measureClaims(ctx, settings, size)
		if err != nil {
			return fmt.Errorf("measuring %d claims: %w", size, err)
		}
		printRequests(os.Stdout, fmt.Sprintf("%d claims", size), s.requests, size)
		asked := ofManager(s.requests)
		ofTemplate := count(asked, func(r env.Request) bool { return isWrite(r) && r.Resource == "metal3datatemplates" })
		each := float64(count(asked, isWrite)-ofTemplate) / float64(size)
		growth := "-"
		if before != nil {
			grown := exponent(float64(before.result.size), float64(size), before.rendered.Seconds(), s.rendered.Seconds())
			growth = fmt.Sprintf("N^%.2f", grown)
			missed = append(missed, exceeds(size, "the exponent of the time", grown, goalDataExponent))
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%.2f\t%d\t%d\n", size, seconds(s.rendered), growth,
			seconds(s.result.used.manager), each, ofTemplate, count(asked, isConflict))
		missed = append(missed, exceeds(size, "the number of writes each", each, goalDataWrites))
		before = s
	}
	fmt.Fprintf(table, "goal\t\tN^%.1f\t\t%d\t\t\n", goalDataExponent, goalDataWrites)
	return errors.Join(append(missed, table.Flush())...)
}

// exceeds returns an error for a measured value above its goal.
func exceeds(size int, what string, measured, goal float64) error {
	if measured <= goal {
		return nil
	}
	return fmt.Errorf("measuring %d claims: %s is %.2f, want %.4g at most", size, what, measured, goal)
}

func measureClaims(ctx context.Context, settings settings, size int) (_ *dataSession, err error) {
	server, err := settings.subject.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopped := server.Stop(); err == nil {
			err = stopped
		}
	}()
	s := &dataSession{session: &session{settings: settings, server: server, result: result{size: size, hosts: size}}}
	if s.observer, err = newObserver(ctx, server.Config); err != nil {
		return nil, err
	}
	for _, phase := range []func(context.Context) error{s.begin, s.associateByHand, s.render} {
		if err := s.inTime(ctx, phase); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// associateByHand creates the template, and paused machines with hosts, so that only the data takes time.
func (s *dataSession) associateByHand(ctx context.Context) error {
	template := &infrav1.Metal3DataTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.DefaultNamespace, Name: dataTemplate},
		Spec: infrav1.Metal3DataTemplateSpec{
			MetaData: &infrav1.MetaData{
				Indexes:            []infrav1.MetaDataIndex{{Key: "rank"}},
				FromHostInterfaces: []infrav1.MetaDataHostInterface{{Key: "mac", FromBootMAC: ptr.To(true)}},
			},
			NetworkData: &infrav1.NetworkData{Services: infrav1.NetworkServices{DNS: []string{"192.0.2.1"}}},
		},
	}
	if err := s.server.Client.Create(ctx, template); err != nil {
		return fmt.Errorf("creating the Metal3DataTemplate: %w", err)
	}
	if err := inParallel(s.result.size, func(number int) error { return s.occupy(ctx, number) }); err != nil {
		return err
	}
	requests, err := s.rest(ctx)
	s.rested = len(requests)
	return err
}

// occupy creates a paused machine with a host.
func (s *dataSession) occupy(ctx context.Context, number int) error {
	host := s.fixture.hosts[hostName(number)]
	machine := s.fixture.machines[number]
	machine.Annotations = map[string]string{
		clusterv1.PausedAnnotation: "", infrav1.HostAnnotation: host.Namespace + "/" + host.Name,
	}
	if err := s.server.Client.Create(ctx, machine); err != nil {
		return fmt.Errorf("creating Metal3Machine %s: %w", machine.Name, err)
	}
	before := host.DeepCopy()
	host.Spec.BootMACAddress = fmt.Sprintf("52:54:00:00:%02x:%02x", number>>8, number&0xff)
	host.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Namespace: host.Namespace, Name: machine.Name,
	}
	if err := s.server.Client.Patch(ctx, &host, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing BareMetalHost %s: %w", host.Name, err)
	}
	return nil
}

// render creates all claims and waits until their data is rendered.
func (s *dataSession) render(ctx context.Context) error {
	rendered := newTracker("rendered data", s.result.size, func(object client.Object) bool {
		data, isData := object.(*infrav1.Metal3Data)
		return isData && ptr.Deref(data.Status.Ready, false)
	})
	if err := s.observer.track(ctx, &infrav1.Metal3Data{}, rendered); err != nil {
		return err
	}
	before, err := s.manager.usage()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := inParallel(s.result.size, func(number int) error {
		return s.server.Client.Create(ctx, claimOf(s.fixture.machines[number]))
	}); err != nil {
		return fmt.Errorf("creating Metal3DataClaims: %w", err)
	}
	done, err := rendered.wait(ctx)
	if err != nil {
		return err
	}
	s.rendered = done.Sub(start)
	requests, err := s.rest(ctx)
	if err != nil {
		return err
	}
	after, err := s.manager.usage()
	if err != nil {
		return err
	}
	s.result.used, s.requests = after.since(before), requests[s.rested:]
	return nil
}

// claimOf returns the claim that the controller of Metal3Machines creates.
func claimOf(machine *infrav1.Metal3Machine) *infrav1.Metal3DataClaim {
	claim := &infrav1.Metal3DataClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: machine.Namespace, Name: machine.Name, Labels: machine.Labels,
			Finalizers: []string{infrav1.MachineFinalizer, infrav1.DataClaimFinalizer},
		},
		Spec: infrav1.Metal3DataClaimSpec{Template: &infrav1.Metal3ObjectRef{Name: dataTemplate}},
	}
	build.OwnedBy(machine)(claim)
	return claim
}
