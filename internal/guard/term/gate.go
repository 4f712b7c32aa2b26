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

// Action is what a gate does with Ironic.
type Action string

// Values of Action.
const (
	// Leave changes nothing.
	Leave Action = "Leave"

	// Freeze stops all processes of Ironic where they are.
	Freeze Action = "Freeze"

	// Thaw lets them continue.
	Thaw Action = "Thaw"

	// Restart starts an Ironic that ended, with its database.
	Restart Action = "Restart"

	// Kill ends Ironic and its container, and so its database.
	Kill Action = "Kill"

	// Exit ends the container of an Ironic that ended.
	Exit Action = "Exit"
)

// Observation is what a gate knows.
type Observation struct {
	Process Process

	// Held says that the VIP has been on the node since Ironic started.
	Held bool

	// Kept says that the VIP is here, and that it never left and its lease was always renewed in time since then, or since
	// the term was last confirmed.
	Kept bool

	// Begun says that the guard has confirmed the term of the database once.
	Begun bool

	// Over says that the guard names another term now, or none.
	Over bool

	// Confirmed says that the guard names the term of the database for the VIP that is here.
	Confirmed bool

	// Away is the time since the VIP was last known to belong to the term.
	Away time.Duration
}

// Decide returns what to do with Ironic:
//
//	VIP                         term          process   action
//	never here                                runs      Leave
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
// A VIP whose lease was not renewed in time has left, even if it is still here: another node may hold it soon.
func Decide(seen Observation) Action {
	switch {
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
