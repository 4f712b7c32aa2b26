package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

const (
	// idleTime is the duration of the idle phase.
	idleTime = time.Minute

	// idleReads is the maximum number of requests of the manager in that time, for any number of machines.
	idleReads = 30
)

// idle measures the manager while all hosts are provisioned and nothing changes.
func (s *session) idle(ctx context.Context) error {
	requests, err := s.rest(ctx)
	if err != nil {
		return err
	}
	seen := len(requests)
	if s.result.minute, err = s.measureIdle(ctx); err != nil {
		return err
	}
	if requests, err = s.rest(ctx); err != nil {
		return err
	}
	s.result.idle = requests[seen:]
	s.result.problems = append(s.result.problems, idleProblems(s.result.idle)...)
	return nil
}

// measureIdle returns the usage in the idle time.
func (s *session) measureIdle(ctx context.Context) (usage, error) {
	before, err := s.manager.usage()
	if err != nil {
		return usage{}, err
	}
	select {
	case <-time.After(idleTime):
	case <-ctx.Done():
		return usage{}, ctx.Err()
	}
	after, err := s.manager.usage()
	return after.since(before), err
}

// idleProblems returns errors for too many requests of an idle manager.
func idleProblems(requests []env.Request) []string {
	asked := ofManager(requests)
	kinds := env.CountRequests(asked, env.Request.String)
	var problems []string
	if writes := count(asked, isWrite); writes > 0 {
		problems = append(problems, fmt.Sprintf("%d writes of an idle manager: %v", writes, slices.Sorted(maps.Keys(kinds))))
	}
	if len(asked) > idleReads {
		problems = append(problems, fmt.Sprintf("%d requests of an idle manager, want %d at most: %v", len(asked),
			idleReads, slices.Sorted(maps.Keys(kinds))))
	}
	return problems
}
