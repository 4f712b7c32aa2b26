package plugin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	clusterctllog "sigs.k8s.io/cluster-api/cmd/clusterctl/log"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// Stages of clusterctl move, as the plugin prints them.
const (
	stageDiscovery = "Discovering"
	stageParking   = "Parking"
	stageCopying   = "Copying"
	stageDeleting  = "Deleting"
)

// clusterctlMove moves the namespace with the library of clusterctl. Total is the expected number of objects.
func (c *recovery) clusterctlMove(ctx context.Context, total int) error {
	log := &moveLog{stage: stageDiscovery, done: map[string]bool{}}
	clusterctllog.SetLogger(logr.New(log))
	mover, err := clusterctl.New(ctx, "")
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- mover.Move(ctx, clusterctl.MoveOptions{
			FromKubeconfig: clusterctl.Kubeconfig{Path: c.source.file, Context: c.source.context},
			ToKubeconfig:   clusterctl.Kubeconfig{Path: c.target.file, Context: c.target.context},
			Namespace:      c.where.namespace,
		})
	}()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			c.follow(ctx, log, total)
			if err == nil {
				_, done, _ := log.state()
				c.progress.begin(stageDeleting, "objects", done)
			}
			return err
		case <-ticker.C:
			c.follow(ctx, log, total)
		}
	}
}

// follow shows the progress of clusterctl. It ignores errors of reading a side: clusterctl reports them.
func (c *recovery) follow(ctx context.Context, log *moveLog, total int) {
	stage, done, last := log.state()
	switch stage {
	case stageCopying:
		c.progress.begin(stage, "objects", max(total, done))
		c.progress.at(done, last)
	case stageDeleting:
		if c.progress.stage != stageDeleting {
			// clusterctl has copied the last objects since the last read.
			c.progress.begin(stageCopying, "objects", log.copied())
			c.progress.at(log.copied(), "")
		}
		c.progress.begin(stage, "objects", max(log.copied(), done))
		c.progress.at(done, last)
	case stageParking:
		seen, err := c.source.look(ctx, c.where.namespace)
		if err != nil {
			return
		}
		shown := summarize([]*sight{seen})
		parked, waiting := 0, ""
		for _, host := range shown.Hosts {
			if host.Phase == pivot.PhaseParked {
				parked++
			} else {
				waiting = strings.TrimSpace(fmt.Sprintf("waiting for %s: %s %s", host.Name, host.Phase, host.Reason))
			}
		}
		c.progress.begin(stage, "hosts", len(shown.Hosts))
		c.progress.at(parked, waiting)
	default:
		c.progress.begin(stage, "", 0)
	}
}

// moveLog reads the progress of clusterctl from its log. The library has no other interface for it.
type moveLog struct {
	mutex sync.Mutex
	stage string

	// done are the objects of the stage, copies is the number of copied objects, and last is the last object.
	done   map[string]bool
	copies int
	last   string
}

// Init does nothing.
func (l *moveLog) Init(logr.RuntimeInfo) {}

// Enabled returns true for the level on which clusterctl names the objects.
func (l *moveLog) Enabled(level int) bool { return level <= 1 }

// Info notes a stage that begins, or an object that is copied or deleted.
func (l *moveLog) Info(_ int, message string, values ...any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch message {
	case "Waiting for all resources to be ready to move":
		l.enter(stageParking)
	case "Creating objects in the target cluster":
		l.enter(stageCopying)
	case "Deleting objects from the source cluster":
		l.copies = len(l.done)
		l.enter(stageDeleting)
	case "Creating", "Deleting":
		if len(values) > 1 {
			// A repeated write logs its object again.
			l.last = fmt.Sprintf("%v %v", values[0], values[1])
			l.done[l.last] = true
		}
	}
}

func (l *moveLog) enter(stage string) { l.stage, l.done, l.last = stage, map[string]bool{}, "" }

// Error does nothing: errors come back from clusterctl.
func (l *moveLog) Error(error, string, ...any) {}

// WithValues returns the same log.
func (l *moveLog) WithValues(...any) logr.LogSink { return l }

// WithName returns the same log.
func (l *moveLog) WithName(string) logr.LogSink { return l }

func (l *moveLog) state() (stage string, done int, last string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.stage, len(l.done), l.last
}

func (l *moveLog) copied() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.copies
}
