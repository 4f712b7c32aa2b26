package hostdata

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// RetryAfter is the age at which a failed claim is replaced. The Metal3 IP address manager never reconciles a failed
// claim again, even if an address becomes free or the pool is enlarged.
const RetryAfter = time.Minute

// Claim is a claim of an address for the data of a machine.
type Claim struct {
	Use

	// Name of the claim.
	Name string

	// Others are further accepted names of the claim. An existing claim with one of them is used.
	Others []string
}

// Claims returns the claims of the data, one for each pool.
//
//	pool                                  name of the claim      also used
//	Metal3                                <data>-<pool>          <host>-<pool>
//	Metal3, preallocation by host name    <host>-<pool>          <data>-<pool>
//	Cluster API                           <data>-<pool>
//	Cluster API, name of an earlier pool  <data>-<pool>-<hash of group and kind>
func Claims(data, host string, byHostName bool, pools []Use) []Claim {
	claims := make([]Claim, 0, len(pools))
	seen := map[string]bool{}
	for _, pool := range pools {
		claim := Claim{Use: pool, Name: data + "-" + pool.Name}
		byHost := host + "-" + pool.Name
		switch {
		case pool.IsMetal3() && byHostName:
			claim.Name, claim.Others = byHost, []string{claim.Name}
		case pool.IsMetal3():
			claim.Others = []string{byHost}
		case seen[pool.Name]:
			hash := sha256.Sum256([]byte(pool.Group + "/" + pool.Kind))
			claim.Name += "-" + hex.EncodeToString(hash[:])[:8]
		default:
			seen[pool.Name] = true
		}
		claims = append(claims, claim)
	}
	return claims
}

// Owner is the kind of the owner of a claim of an address.
type Owner int

// Values of Owner.
const (
	// OwnedByData means that the Metal3Data that requires the address owns the claim.
	OwnedByData Owner = iota

	// OwnedByPredecessor means that an earlier Metal3Data of the same name owns the claim.
	OwnedByPredecessor

	// OwnedByOther means that another object owns the claim.
	OwnedByOther

	// OwnedByNone means that the claim has no ownerReferences.
	OwnedByNone
)

// FoundClaim has the facts about a claim of an address.
type FoundClaim struct {
	Name  string
	Owner Owner

	// Deleting says that the claim is being deleted.
	Deleting bool

	// Failure is the error of the address manager. Empty if the claim did not fail.
	Failure string

	// Final says that the address manager does not reconcile a failed claim again.
	Final bool

	// Age of the claim.
	Age time.Duration

	// Address is the allocated address. Nil if there is none, or if its provider may release it at any time.
	Address *Address

	// OtherPool is the pool of an address that is of another pool than the claim. Address is then nil.
	OtherPool string
}

// Step is the next action for a claim of an address.
type Step int

// Values of Step.
const (
	// CreateClaim creates the claim.
	CreateClaim Step = iota

	// UseAddress uses the address of the claim.
	UseAddress

	// AwaitAddress waits for the address manager.
	AwaitAddress

	// AwaitOther waits until a claim of another object, or of none, is deleted.
	AwaitOther

	// AwaitPool waits for an address of the pool of the claim.
	AwaitPool

	// DiscardClaim deletes the claim and waits until it is deleted.
	DiscardClaim

	// ReportFailure reports the error of the address manager, and waits until the claim may be replaced.
	ReportFailure
)

// Next returns the step for a claim of an address. Nil means that the claim does not exist.
//
//	the claim                          step
//	does not exist                     create
//	belongs to a predecessor           discard: no other controller releases its address
//	belongs to another object          wait until it is deleted
//	belongs to no object               wait for its deletion, then discard: no other Metal3Data removes the finalizer
//	has an address                     use it, even if it is being deleted, while its finalizer keeps the address
//	has an address of another pool     wait: the provider of its pool may allocate another one
//	failed finally a while ago         discard: the next claim may succeed
//	failed                             report the failure
//	is being deleted without address   discard: it gets no address
//	has no address                     wait for the address manager
func Next(found *FoundClaim) Step {
	switch {
	case found == nil:
		return CreateClaim
	case found.Owner == OwnedByPredecessor, found.Owner == OwnedByNone && found.Deleting:
		return DiscardClaim
	case found.Owner == OwnedByOther, found.Owner == OwnedByNone:
		return AwaitOther
	case found.Address != nil:
		return UseAddress
	case found.OtherPool != "" && !found.Deleting:
		return AwaitPool
	case found.Failure != "" && found.Final && found.Age >= RetryAfter, found.Deleting:
		return DiscardClaim
	case found.Failure != "":
		return ReportFailure
	default:
		return AwaitAddress
	}
}
