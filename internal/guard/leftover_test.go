package guard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLeftover follows a VIP for which keepalived has some time to release it.
func TestLeftover(t *testing.T) {
	t.Parallel()
	const here, may = "here", "may hold"
	type tick struct {
		after time.Duration
		// seen are the words "here" and "may hold".
		seen []string
		want string
	}
	for name, test := range map[string]struct {
		reason string
		ticks  []tick
	}{
		"holder":   {"the node may hold the VIP", []tick{{0, []string{here, may}, ""}, {time.Hour, []string{here, may}, ""}}},
		"standby":  {"there is no VIP", []tick{{0, nil, ""}, {time.Hour, nil, ""}}},
		"released": {"keepalived works", []tick{{0, []string{here}, ""}, {releasePatience, nil, ""}, {hungPatience, nil, ""}}},
		"restored": {"the node may hold the VIP again", []tick{
			{0, []string{here}, ""}, {releasePatience, []string{here, may}, ""}, {hungPatience, []string{here}, ""},
		}},
		"slow guard": {"keepalived had no time either", []tick{{time.Hour, []string{here}, ""}}},
		"hung": {"keepalived does not release the VIP", []tick{
			{0, []string{here}, ""}, {releasePatience - 1, []string{here}, ""}, {releasePatience, []string{here}, "removes"},
			{hungPatience - 1, nil, ""}, {hungPatience, nil, "due"},
		}},
		"hung, may hold again": {"the database of Ironic is new by now", []tick{
			{0, []string{here}, ""}, {releasePatience, []string{here}, "removes"}, {hungPatience, []string{may}, "due"},
		}},
		"not removable": {"the kernel keeps the VIP", []tick{
			{0, []string{here}, ""}, {releasePatience, []string{here}, "removes"}, {hungPatience, []string{here}, "removes due"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var left leftover
			for _, tick := range test.ticks {
				has := map[string]bool{}
				for _, word := range tick.seen {
					has[word] = true
				}
				removes, isDue := left.judge(has[here], has[may], time.Unix(1000, 0).Add(tick.after))
				got := map[[2]bool]string{{true, false}: "removes", {false, true}: "due", {true, true}: "removes due"}
				if diff := cmp.Diff(tick.want, got[[2]bool{removes, isDue}]); diff != "" {
					t.Errorf("%s, after %s (-want +got):\n%s", test.reason, tick.after, diff)
				}
			}
		})
	}
}
