package guard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestUsers changes a password file. A removed user is accepted for a while.
func TestUsers(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	type step struct {
		after   time.Duration
		content string
	}
	for name, test := range map[string]struct {
		reason string
		steps  []step
		read   time.Duration
		want   string
	}{
		"one":         {"nothing has changed", []step{{0, "a:1\n"}}, 0, "a:1\n"},
		"no line end": {"the web server reads lines", []step{{0, "a:1"}}, 0, "a:1\n"},
		"another one": {"clients still use the old user", []step{{0, "a:1\n"}, {0, "b:2\n"}}, time.Hour - 1, "b:2\na:1\n"},
		"over":        {"clients use the new user", []step{{0, "a:1\n"}, {0, "b:2\n"}}, time.Hour, "b:2\n"},
		"new password": {
			"the web server uses the first line of a user", []step{{0, "a:1\n"}, {0, "a:2\n"}}, 0, "a:2\n",
		},
		"back": {
			"an edit is reverted", []step{{0, "a:1\n"}, {0, "b:2\n"}, {time.Minute, "a:1\n"}}, time.Minute, "a:1\nb:2\n",
		},
		"two in a row": {
			"each user has its own time", []step{{0, "a:1\n"}, {0, "b:2\n"}, {time.Minute, "c:3\n"}}, time.Hour, "c:3\nb:2\n",
		},
		"both in the file": {"a user rotates manually", []step{{0, "a:1\n"}, {0, "b:2\na:1\n"}, {0, "b:2\n"}}, 0, "b:2\na:1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var u users
			for _, step := range test.steps {
				now := begin.Add(step.after)
				u.page(now)
				u.enter([]byte(step.content), now.Add(time.Hour))
			}
			if diff := cmp.Diff(test.want, string(u.page(begin.Add(test.read)))); diff != "" {
				t.Errorf("%s: -want +got:\n%s", test.reason, diff)
			}
		})
	}
}
