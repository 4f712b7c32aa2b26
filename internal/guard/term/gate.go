package term

import "time"

// Process is the state of Ironic.
type Process string

// Values of Process.
const (
	Running Process = "Running"
	Frozen  Process = "Frozen"
	Ended   Process = "Ended"
)

// Action is an action of a gate on Ironic.
type Action string

// Values of Action.
const (
	// Leave changes nothing.
	Leave Action = "Leave"

	// Freeze stops all processes of Ironic with SIGSTOP.
	Freeze Action = "Freeze"

	// Thaw continues them.
	Thaw Action = "Thaw"

	// Restart restarts an ended Ironic with its database.
	Restart Action = "Restart"

	// Kill ends Ironic, its container, and its database.
	Kill Action = "Kill"

	// Exit ends the container of an ended Ironic.
	Exit Action = "Exit"

	// Replace ends an Ironic that hangs without the VIP, and its container.
	Replace Action = "Replace"
)

// Observation is the input of a gate.
type Observation struct {
	Process Process

	// Held is true if the VIP has been on the node since Ironic started.
	Held bool

	// Hung is true if Ironic has run and failed the checks of the guard for HungAfter.
	Hung bool

	// Kept is true if the VIP is on the node, has never left, and its lease was always renewed in time, since the
	// start of Ironic or the last confirmation of the term.
	Kept bool

	// Begun is true if the guard has confirmed the term of the database once.
	Begun bool

	// Over is true if the guard names another term, or none.
	Over bool

	// Confirmed is true if the guard names the term of the database for the current VIP.
	Confirmed bool

	// Away is the time since the VIP was last known to belong to the term.
	Away time.Duration
}

// Decide returns the action on Ironic:
//
//	VIP                         term          process   action
//	never here                                runs      Leave
//	never here                                hangs     Replace
//	never here                                ended     Exit
//	here all the time           any           runs      Leave
//	here all the time, unseen   any           frozen    Thaw
//	here all the time           begun         ended     Restart
//	here all the time           not begun     ended     Exit
//	has left                    not begun     any       Kill
//	has left                    over          any       Kill
//	has left                    Grace passed  any       Kill
//	left, may be back           goes on       runs      Freeze
//	left, may be back           goes on       else      Leave
//	is back                     confirmed     ended     Restart
//	is back                     confirmed     else      Thaw
//
// A VIP with a lease that was not renewed in time has left, even if it is still on the node: another node may hold it
// soon.
func Decide(seen Observation) Action {
	switch {
	case !seen.Held && seen.Hung:
		return unlessEnded(seen.Process, Replace, Exit)
	case !seen.Held:
		return unlessEnded(seen.Process, Leave, Exit)
	case seen.Kept && seen.Process == Frozen:
		return Thaw
	case seen.Kept && seen.Begun:
		return unlessEnded(seen.Process, Leave, Restart)
	case seen.Kept:
		return unlessEnded(seen.Process, Leave, Exit)
	case !seen.Begun, seen.Over, seen.Away >= Grace:
		return Kill
	case seen.Confirmed:
		return unlessEnded(seen.Process, Thaw, Restart)
	case seen.Process == Running:
		return Freeze
	default:
		return Leave
	}
}

func unlessEnded(process Process, lives, ended Action) Action {
	if process == Ended {
		return ended
	}
	return lives
}
