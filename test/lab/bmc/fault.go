package bmc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Fault is a fault of a BMC. The zero value is no fault.
type Fault struct {
	// RefuseCredentials refuses the right user name and password too.
	RefuseCredentials bool
	// Busy answers all requests with 503, as a BMC does that restarts.
	Busy bool
	// Delay is the delay of each request. A request is not executed if its client disconnects in this time.
	Delay time.Duration
	// FailPower is the error of requests to change the power. Empty means no error.
	FailPower string
	// IgnorePower accepts requests to change the power without executing them.
	IgnorePower bool
	// IgnoreEject accepts requests to eject a medium without executing them.
	IgnoreEject bool
}

// SetFault sets the fault of the BMC of a machine.
func (s *Server) SetFault(machine string, fault Fault) error {
	found := s.find(machine)
	if found == nil {
		return fmt.Errorf("machine %s has no BMC", machine)
	}
	found.mutex.Lock()
	defer found.mutex.Unlock()
	found.fault = fault
	return nil
}

// SetCredentials replaces the user name and the password of the BMC of a machine. Sessions with the earlier ones are
// refused.
func (s *Server) SetCredentials(machine, username, password string) error {
	found := s.find(machine)
	switch {
	case found == nil:
		return fmt.Errorf("machine %s has no BMC", machine)
	case username == "" || password == "":
		return fmt.Errorf("the BMC of machine %s requires a user name and a password", machine)
	}
	found.mutex.Lock()
	defer found.mutex.Unlock()
	found.credentials = credentials{username, password}
	return nil
}

func (c *controller) currentFault() Fault {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.fault
}

func (f Fault) wait(ctx context.Context) error {
	if f.Delay == 0 {
		return nil
	}
	timer := time.NewTimer(f.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting as the fault says: %w", ctx.Err())
	}
}

func (f Fault) power() error {
	if f.FailPower == "" {
		return nil
	}
	return errors.New(f.FailPower)
}
