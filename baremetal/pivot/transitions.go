package pivot

// Transition is an edge of the state machine of a host in a move. From is empty for a new object, and To for a deleted
// one.
type Transition struct {
	From, To Phase

	// Cause is the action of a user, clusterctl, BMO or the manager.
	Cause string
}

// Transitions returns the state machine of a host in a move.
//
//	source:  Running ──► Parking ──► Parked ──► Leaving ──► (gone)
//	target:  (copied) ──► Parked ──► WaitingForEndpoint ──► Resuming ──► Running
//
// The source of an aborted move has the transitions of the target. A host is moving from Parking to Resuming. Every
// phase has transitions to Fenced, when another management cluster claims the Cluster, and to Leaving, when a move
// deletes the host: the table has only the usual ones.
func Transitions() []Transition {
	return []Transition{
		{"", PhaseRunning, "a user creates the host"},
		{PhaseRunning, PhaseBusy, "BMO begins to work on it"},
		{PhaseBusy, PhaseRunning, "BMO is done"},
		{PhaseBusy, PhaseParking, "BMO is done while the Cluster is paused"},
		{PhaseRunning, PhaseParking, "clusterctl pauses the Cluster"},
		{PhaseParking, PhaseRunning, "the Cluster is unpaused before the host is paused"},
		{PhaseParking, PhaseParked, "the manager pauses the host and records its status"},
		{PhaseParked, PhaseParking, "its status changes, or another move begins"},
		{PhaseParked, PhaseLeaving, "clusterctl deletes it in the source"},
		{PhaseLeaving, "", "clusterctl removes the finalizers"},
		{"", PhaseParked, "clusterctl copies it to the target"},
		{PhaseParked, PhaseWaitingForEndpoint, "the Cluster is unpaused"},
		{PhaseWaitingForEndpoint, PhaseParked, "the Cluster is paused again"},
		{PhaseWaitingForEndpoint, PhaseResuming, "IronicEndpointReady and block-move are back"},
		{PhaseResuming, PhaseWaitingForEndpoint, "the endpoint no longer answers"},
		{PhaseResuming, PhaseRunning, "the manager removes the pause"},
		{PhaseRunning, PhaseFenced, "another management cluster claims the Cluster"},
		{PhaseFenced, PhaseResuming, "the user takes over"},
		{"", PhaseArrivalHeld, "clusterctl copies it onto a leftover"},
		{PhaseParked, PhaseArrivalHeld, "the next move does not bring it"},
		{PhaseArrivalHeld, PhaseResuming, "the user keeps it, or replaces it"},
		{"", PhaseStatusLost, "a backup is restored"},
		{PhaseStatusLost, PhaseResuming, "its Node has joined"},
		{PhaseBusy, PhaseProvisioningHeld, "its Ironic is gone, and the workload cluster does not answer"},
		{PhaseProvisioningHeld, PhaseResuming, "its Node has joined"},
		{PhaseRunning, PhasePausedByUser, "the user pauses it"},
		{PhasePausedByUser, PhaseRunning, "the user removes the pause"},
		{PhasePausedByUser, PhaseParked, "the Cluster is paused, and the manager records its status"},
		{PhaseParked, PhasePausedByUser, "the Cluster runs, and the pause is the user's"},
	}
}
