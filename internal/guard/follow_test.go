package guard

import (
	"os"
	"path/filepath"
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

// TestPasswordsWithoutCertificate changes the passwords while the certificate cannot be used.
func TestPasswordsWithoutCertificate(t *testing.T) {
	t.Parallel()
	folder, now := t.TempDir(), time.Unix(1000, 0)
	source := func(name, content string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	passwords := source("htpasswd", "a:1\n")
	f := follower{
		certificate: source("tls.crt", "expired"), key: source("tls.key", "expired"), authority: source("ca.crt", "expired"),
		passwords: copied{from: passwords, to: filepath.Join(folder, "copy")},
	}
	for _, from := range []string{f.certificate, f.key, f.authority} {
		f.copies = append(f.copies, copied{from: from, to: from + "-copy"})
	}
	for _, test := range []struct {
		after         time.Duration
		content, want string
	}{
		{0, "a:1\n", "a:1\n"},
		{0, "b:2\n", "b:2\na:1\n"},
		{formerUsersStay, "b:2\n", "b:2\n"},
	} {
		source("htpasswd", test.content)
		if err := f.sync(now.Add(test.after)); err == nil {
			t.Error("the certificate is used")
		}
		if diff := cmp.Diff(test.want, string(f.users.page(now.Add(test.after)))); diff != "" {
			t.Errorf("passwords %q after %s (-want +got):\n%s", test.content, test.after, diff)
		}
		if _, err := os.Stat(f.certificate + "-copy"); err == nil {
			t.Error("the certificate was copied")
		}
	}
}
