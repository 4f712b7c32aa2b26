package bmc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Fault is how a board controller misbehaves. The zero value is a controller that works.
type Fault struct {
	// RefuseCredentials makes it refuse the right user name and password too.
	RefuseCredentials bool
	// Busy makes it answer everything with 503, as controllers do that restart.
	Busy bool
	// Delay is how long it waits before it does anything. A request whose client closes the connection in the meantime
	// is not executed.
	Delay time.Duration
	// FailPower is why it refuses to change the power. Empty means that it does not refuse.
	FailPower string
	// IgnorePower makes it accept commands that change the power, and do nothing.
	IgnorePower bool
}

// SetFault makes the board controller of a machine misbehave from now on, until another fault is set.
func (s *Server) SetFault(machine string, fault Fault) error {
	found := s.find(machine)
	if found == nil {
		return fmt.Errorf("there is no board controller of machine %s", machine)
	}
	found.mutex.Lock()
	defer found.mutex.Unlock()
	found.fault = fault
	return nil
}

// SetCredentials replaces the user name and the password of the board controller of a machine. Sessions that began with
// the earlier ones are refused.
func (s *Server) SetCredentials(machine, username, password string) error {
	found := s.find(machine)
	switch {
	case found == nil:
		return fmt.Errorf("there is no board controller of machine %s", machine)
	case username == "" || password == "":
		return fmt.Errorf("the board controller of machine %s: it needs a user name and a password", machine)
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
