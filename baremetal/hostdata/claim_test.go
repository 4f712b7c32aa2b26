package hostdata_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

func TestClaims(t *testing.T) {
	pool := func(group, kind, name string) hostdata.Use {
		return hostdata.Use{Pool: hostdata.Pool{Group: group, Kind: kind, Name: name}}
	}
	ofMetal3 := hostdata.Use{Pool: metal3("p")}
	cases := map[string]struct {
		pools      []hostdata.Use
		byHostName bool
		want       []string
	}{
		"a pool of Metal3":           {pools: []hostdata.Use{ofMetal3}, want: []string{"t-0-p|host-p"}},
		"preallocation by host name": {pools: []hostdata.Use{ofMetal3}, byHostName: true, want: []string{"host-p|t-0-p"}},
		"a pool of another provider": {pools: []hostdata.Use{pool("g", "K", "p")}, byHostName: true, want: []string{"t-0-p"}},
		"one name, two APIs":         {pools: []hostdata.Use{pool("g", "K", "p"), ofMetal3}, want: []string{"t-0-p", "t-0-p|host-p"}},
		"one name, several kinds and groups": {
			pools: []hostdata.Use{pool("g", "K", "p"), pool("g", "L", "p"), pool("h", "K", "p"), pool("h", "K", "q")},
			want:  []string{"t-0-p", "t-0-p-a1637c99", "t-0-p-4fa5bbb5", "t-0-q"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, claim := range hostdata.Claims("t-0", "host", tc.byHostName, tc.pools) {
				got = append(got, strings.Join(append([]string{claim.Name}, claim.Others...), "|"))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestNext(t *testing.T) {
	const young, old = hostdata.RetryAfter - time.Second, hostdata.RetryAfter
	address := &hostdata.Address{Address: "10.0.0.1"}
	cases := map[string]struct {
		found *hostdata.FoundClaim
		want  hostdata.Step
	}{
		"does not exist":                           {nil, hostdata.CreateClaim},
		"of a predecessor":                         {&hostdata.FoundClaim{Owner: hostdata.OwnedByPredecessor, Address: address}, hostdata.DiscardClaim},
		"of a predecessor, being deleted":          {&hostdata.FoundClaim{Owner: hostdata.OwnedByPredecessor, Deleting: true}, hostdata.DiscardClaim},
		"of another, with an address":              {&hostdata.FoundClaim{Owner: hostdata.OwnedByOther, Address: address}, hostdata.AwaitOther},
		"with an address of another pool":          {&hostdata.FoundClaim{OtherPool: "IPPool p"}, hostdata.AwaitPool},
		"the same, being deleted":                  {&hostdata.FoundClaim{OtherPool: "IPPool p", Deleting: true}, hostdata.DiscardClaim},
		"of another, being deleted":                {&hostdata.FoundClaim{Owner: hostdata.OwnedByOther, Deleting: true}, hostdata.AwaitOther},
		"of no object":                             {&hostdata.FoundClaim{Owner: hostdata.OwnedByNone, Address: address}, hostdata.AwaitOther},
		"of no object, being deleted":              {&hostdata.FoundClaim{Owner: hostdata.OwnedByNone, Deleting: true}, hostdata.DiscardClaim},
		"new":                                      {&hostdata.FoundClaim{}, hostdata.AwaitAddress},
		"new, an hour old":                         {&hostdata.FoundClaim{Age: old, Final: true}, hostdata.AwaitAddress},
		"has an address":                           {&hostdata.FoundClaim{Address: address}, hostdata.UseAddress},
		"has an address, being deleted":            {&hostdata.FoundClaim{Address: address, Deleting: true}, hostdata.UseAddress},
		"has an address and an old failure":        {&hostdata.FoundClaim{Address: address, Failure: "x", Final: true, Age: old}, hostdata.UseAddress},
		"being deleted":                            {&hostdata.FoundClaim{Deleting: true}, hostdata.DiscardClaim},
		"failed":                                   {&hostdata.FoundClaim{Failure: "x", Final: true, Age: young}, hostdata.ReportFailure},
		"failed for good a while ago":              {&hostdata.FoundClaim{Failure: "x", Final: true, Age: old}, hostdata.DiscardClaim},
		"failed a while ago, but is still tried":   {&hostdata.FoundClaim{Failure: "x", Age: old}, hostdata.ReportFailure},
		"failed, still tried, and being deleted":   {&hostdata.FoundClaim{Failure: "x", Deleting: true}, hostdata.DiscardClaim},
		"failed for good, young and being deleted": {&hostdata.FoundClaim{Failure: "x", Final: true, Age: young, Deleting: true}, hostdata.DiscardClaim},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := hostdata.Next(tc.found); got != tc.want {
				t.Errorf("got step %d, want %d", got, tc.want)
			}
		})
	}
}
