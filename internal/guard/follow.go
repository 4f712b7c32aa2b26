package guard

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

const (
	// followInterval is the interval of the checks of the files.
	followInterval = time.Second

	// formerUsersStay is how long the web server accepts a user that was removed from the file. It is longer than a
	// manual update of the credentials of clients takes.
	formerUsersStay = time.Hour

	// reload makes the web server read its configuration and certificates. It completes running requests.
	reload = syscall.SIGUSR1
)

// follower runs the web server with copies of files that follow their sources.
type follower struct {
	copies []copied

	// certificate, key and authority are sources. They change together: a certificate that does not match the key or
	// the authority is not used.
	certificate, key, authority string

	// passwords is the file of the web server, which reads it for each request.
	passwords copied

	command []string
	log     *logger

	child *process.Child

	// known are the contents of the sources in use.
	known map[string][]byte

	// users are the desired passwords, written those in the file.
	users   users
	written []byte

	// outdated is true if the web server does not use the certificates of the copies yet.
	outdated bool
}

// followCommand runs the web server in the Deployment of the management cluster, whose files follow a Secret.
func followCommand(ctx context.Context, arguments []string, environment Environment) (int, error) {
	f := follower{log: newLogger(environment.logger())}
	flags := newFlags("follow", environment)
	pairs(flags, "copy", "file and of its copy; may be repeated", func(pair copied) { f.copies = append(f.copies, pair) })
	pairs(flags, "passwords", "file with users and of the file of the web server, which keeps removed users for "+
		formerUsersStay.String(), func(pair copied) { f.passwords = pair })
	flags.StringVar(&f.certificate, "certificate", "", "FROM of the certificate")
	flags.StringVar(&f.key, "key", "", "FROM of the key of the certificate")
	flags.StringVar(&f.authority, "authority", "", "FROM of the authority that has signed the certificate")
	if err := flags.Parse(arguments); err != nil {
		return exitUsage, err
	}
	f.command = flags.Args()
	if f.certificate == "" || f.key == "" || f.authority == "" || f.passwords.from == "" || len(f.command) == 0 {
		return exitUsage, errors.New("--certificate, --key, --authority, --passwords, and the program after -- are required")
	}
	var err error
	if f.command[0], err = exec.LookPath(f.command[0]); err != nil {
		return exitFailure, err
	}
	return f.run(ctx)
}

// run returns the exit code of the program when it ends. It sends SIGTERM to the program when the context ends.
func (f *follower) run(ctx context.Context) (int, error) {
	reaper := process.NewReaper()
	defer reaper.Close()
	const kind, problem = "files", "Cannot use the new files, keeping the old ones"
	err := f.sync(time.Now())
	f.log.once(kind, problem, err)
	if err == nil {
		// At its start the program reads the current sources.
		f.written = f.users.page(time.Now())
	}
	f.outdated = false
	f.child, err = reaper.Start(process.Program{Path: f.command[0], Arguments: f.command[1:], Output: os.Stderr})
	if err != nil {
		return exitFailure, err
	}
	ticks := time.NewTicker(followInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			// The only possible error is that the program has ended.
			_ = f.child.Signal(syscall.SIGTERM)
			<-f.child.Done()
			return 0, nil
		case <-f.child.Done():
			f.log.Info("The program ended by itself", "program", f.command[0], "ending", f.child.Ending())
			return f.child.ExitCode(), nil
		case now := <-ticks.C:
			f.log.once(kind, problem, errors.Join(f.sync(now), f.apply(now)))
		}
	}
}

// sync updates the desired passwords, and the copies if their sources match each other.
func (f *follower) sync(now time.Time) error {
	passwords, err := os.ReadFile(f.passwords.from)
	if err == nil {
		f.users.enter(passwords, now.Add(formerUsersStay))
	}
	return errors.Join(err, f.syncCopies(now))
}

func (f *follower) syncCopies(now time.Time) error {
	found := map[string][]byte{}
	for _, pair := range f.copies {
		content, err := os.ReadFile(pair.from)
		if err != nil {
			return err
		}
		found[pair.from] = content
	}
	if maps.EqualFunc(found, f.known, bytes.Equal) {
		return nil
	}
	if err := checkCertificate(found[f.certificate], found[f.key], found[f.authority], now); err != nil {
		return fmt.Errorf("checking %s: %w", f.certificate, err)
	}
	own := owner{os.Getuid(), os.Getgid()}
	for _, pair := range f.copies {
		if err := own.write(pair.to, found[pair.from]); err != nil {
			return err
		}
	}
	for _, name := range []string{f.certificate, f.key} {
		f.outdated = f.outdated || !bytes.Equal(found[name], f.known[name])
	}
	f.known = found
	return nil
}

// apply applies changes to the program. It waits until the program catches the signal: the script before the web
// server would end.
func (f *follower) apply(now time.Time) error {
	page := f.users.page(now)
	if !f.outdated && bytes.Equal(page, f.written) || !f.child.Catches(reload) {
		return nil
	}
	if !bytes.Equal(page, f.written) {
		if err := track.Replace(f.passwords.to, page, 0o644); err != nil {
			return err
		}
		f.written = page
		f.log.Info("The web server has new passwords", "formerUsers", len(f.users.former))
	}
	if !f.outdated {
		return nil
	}
	if err := f.child.Signal(reload); err != nil {
		return err
	}
	f.outdated = false
	f.log.Info("The web server reads its new certificate")
	return nil
}

// checkCertificate returns an error for a certificate that clients of the authority do not accept, and for a key that
// does not match: it would end the web server.
func checkCertificate(certificate, key, authority []byte, now time.Time) error {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	options := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now,
	}
	options.Roots.AppendCertsFromPEM(authority)
	options.Intermediates.AppendCertsFromPEM(certificate)
	_, err = pair.Leaf.Verify(options)
	return err
}

// users are the lines of a password file.
type users struct {
	content string
	former  []formerUser
}

// formerUser is a line that was removed from the file.
type formerUser struct {
	line  string
	until time.Time
}

// enter replaces the content. Removed users stay until the given time. The web server uses one line for each user
// name, so a user with a new password has no former line.
func (u *users) enter(content []byte, until time.Time) {
	before := u.content
	u.content = strings.TrimSpace(string(content)) + "\n"
	now := map[string]bool{}
	for line := range strings.Lines(u.content) {
		now[userOf(line)] = true
	}
	u.former = slices.DeleteFunc(u.former, func(f formerUser) bool { return now[userOf(f.line)] })
	for line := range strings.Lines(before) {
		if !now[userOf(line)] {
			u.former = append(u.former, formerUser{line, until})
		}
	}
}

// page returns the content for the web server.
func (u *users) page(now time.Time) []byte {
	u.former = slices.DeleteFunc(u.former, func(f formerUser) bool { return !now.Before(f.until) })
	page := u.content
	for _, one := range u.former {
		page += one.line
	}
	return []byte(page)
}

func userOf(line string) string {
	name, _, _ := strings.Cut(line, ":")
	return name
}
