package guard

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
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
	// followInterval is the time between two looks at the files.
	followInterval = time.Second

	// formerUsersStay is how long a user who left the file is accepted: longer than it takes to give clients the new
	// credentials by hand.
	formerUsersStay = time.Hour

	// reload has the web server read its configuration and its certificates. It finishes the requests that it serves.
	reload = syscall.SIGUSR1
)

// follower runs the web server with copies of files that follow their sources.
type follower struct {
	copies []copied

	// certificate, key and authority are sources. They change together: a certificate that its authority did not sign, or
	// that another key belongs to, is not used.
	certificate, key, authority string

	// passwords are those of the web server, which reads them for each request.
	passwords copied

	command []string
	log     *slog.Logger

	child *process.Child

	// known are the contents of the sources that are in use.
	known map[string][]byte

	// users and told are what the passwords should have, and have.
	users users
	told  []byte

	// outdated says that the web server has other certificates than the copies.
	outdated bool

	// problem is what was logged last.
	problem string
}

// copied is a file and its copy.
type copied struct{ from, to string }

func parseCopied(flag, text string) (copied, error) {
	from, to, found := strings.Cut(text, ":")
	if !found {
		return copied{}, fmt.Errorf("--%s is %q; give two paths like /from:/to", flag, text)
	}
	return copied{from, to}, nil
}

// followCommand runs the web server in the Deployment of the management side, whose files follow a Secret.
func followCommand(ctx context.Context, arguments []string, environment Environment) (int, error) {
	f := follower{log: environment.logger()}
	var copies []string
	flags := newFlags("follow", environment)
	several(flags, "copy", "FROM:TO, absolute paths of a file and of its copy", &copies)
	flags.StringVar(&f.certificate, "certificate", "", "FROM of the certificate")
	flags.StringVar(&f.key, "key", "", "FROM of the key of the certificate")
	flags.StringVar(&f.authority, "authority", "", "FROM of the authority that has signed the certificate")
	passwords := flags.String("passwords", "", "FROM:TO, absolute paths of a file with users and of that of the web "+
		"server, where users who leave stay for "+formerUsersStay.String())
	if err := flags.Parse(arguments); err != nil {
		return exitUsage, err
	}
	f.command = flags.Args()
	if f.certificate == "" || f.key == "" || f.authority == "" || len(f.command) == 0 {
		return exitUsage, errors.New("give --certificate, --key and --authority and, after --, the program to run")
	}
	var err error
	if f.passwords, err = parseCopied("passwords", *passwords); err != nil {
		return exitUsage, err
	}
	for _, text := range copies {
		pair, err := parseCopied("copy", text)
		if err != nil {
			return exitUsage, err
		}
		f.copies = append(f.copies, pair)
	}
	if f.command[0], err = exec.LookPath(f.command[0]); err != nil {
		return exitFailure, err
	}
	return f.run(ctx)
}

// run returns the exit code of the program when that ends. When the context ends, the program is asked to end.
func (f *follower) run(ctx context.Context) (int, error) {
	reaper := process.NewReaper()
	defer reaper.Close()
	f.report(f.look(time.Now()))
	// What the program reads at its start is what the sources say.
	f.told, f.outdated = f.users.page(time.Now()), false
	var err error
	f.child, err = reaper.Start(process.Program{Path: f.command[0], Arguments: f.command[1:], Output: os.Stderr})
	if err != nil {
		return exitFailure, err
	}
	ticks := time.NewTicker(followInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			// It only fails after the program has ended.
			_ = f.child.Signal(syscall.SIGTERM)
			<-f.child.Done()
			return 0, nil
		case <-f.child.Done():
			f.log.Info("The program ended by itself", "program", f.command[0], "ending", f.child.Ending())
			return f.child.ExitCode(), nil
		case now := <-ticks.C:
			f.report(errors.Join(f.look(now), f.tell(now)))
		}
	}
}

// look brings the copies up to date, if the sources fit together.
func (f *follower) look(now time.Time) error {
	found := map[string][]byte{}
	for _, pair := range slices.Concat(f.copies, []copied{f.passwords}) {
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
	f.users.enter(found[f.passwords.from], now.Add(formerUsersStay))
	f.known = found
	return nil
}

// tell lets the program know what has changed. A program that does not catch the signal yet is told later: the script
// before the web server would end.
func (f *follower) tell(now time.Time) error {
	page := f.users.page(now)
	if !f.outdated && bytes.Equal(page, f.told) || !f.child.Catches(reload) {
		return nil
	}
	if !bytes.Equal(page, f.told) {
		if err := track.Replace(f.passwords.to, page); err != nil {
			return err
		}
		f.told = page
		f.log.Info("The web server has new passwords", "usersWhoLeftAndStay", len(f.users.former))
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

// report logs a problem that is another one than before.
func (f *follower) report(problem error) {
	said := ""
	if problem != nil {
		said = problem.Error()
	}
	if said != "" && said != f.problem {
		f.log.Error("Cannot use the new files and goes on with the old ones", "error", said)
	}
	f.problem = said
}

// checkCertificate demands a certificate that clients of the authority accept. The web server would end with a key that
// does not fit.
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

// users are the lines of a file of passwords.
type users struct {
	content string
	former  []formerUser
}

// formerUser is a line that is no longer in the file.
type formerUser struct {
	line  string
	until time.Time
}

// enter takes another content. Users who are not in it any more stay until then. The web server finds one line for each
// user, so a user with a new password has no other one.
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

// page is what the web server should read.
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
