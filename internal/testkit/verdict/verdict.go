// Package verdict has rendered files judged by the programs that read them on a machine: keepalived, dnsmasq,
// cloud-init and Ignition.
//
// It refuses to imitate any of them. What is not on this machine judges nothing, and the test says so: keepalived and
// dnsmasq are asked in passing, so the test goes on without them, and cloud-init and Ignition are all that a test is
// about, so it is skipped.
//
// None of them touches the machine: keepalived and dnsmasq only check their files, cloud-init writes below a temporary
// directory, and of Ignition there are only the parsers.
package verdict

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long a program may take. Building that of Ignition takes longest.
const patience = 5 * time.Minute

// Keepalived has keepalived check its file, which is rendered for an interface of this machine. It has to find nothing
// to say: what it only warns of, it also ignores.
func Keepalived(t *testing.T, render func(network string) ([]byte, error)) {
	t.Helper()
	program, err := exec.LookPath("keepalived")
	if err != nil {
		t.Log("keepalived is not installed, so it did not check the file")
		return
	}
	content, err := render(someInterface(t))
	if err != nil {
		t.Fatal(err)
	}
	output, err := check(t, content, program, "--config-test", "--use-file")
	if err != nil || output != "" {
		t.Errorf("keepalived does not accept the file: %v\n%s", err, output)
	}
}

// someInterface is one of this machine that keepalived would use.
func someInterface(t *testing.T) string {
	t.Helper()
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, candidate := range interfaces {
		if len(candidate.HardwareAddr) > 0 && candidate.Flags&net.FlagMulticast != 0 {
			return candidate.Name
		}
	}
	t.Skip("this machine has no Ethernet interface that keepalived could check the file with")
	return ""
}

// DNSMasq has dnsmasq check its file.
func DNSMasq(t *testing.T, content []byte) {
	t.Helper()
	program, err := exec.LookPath("dnsmasq")
	if err != nil {
		t.Log("dnsmasq is not installed, so it did not check the file")
		return
	}
	output, err := check(t, content, program, "--test", "--conf-file")
	if err != nil || !strings.Contains(output, "syntax check OK") {
		t.Errorf("dnsmasq does not accept the file: %v\n%s", err, output)
	}
}

// check runs a program whose last argument takes a file, and returns all that it says.
func check(t *testing.T, content []byte, program string, arguments ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rendered")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last := len(arguments) - 1
	arguments[last] += "=" + file
	output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput()
	return string(output), err
}

// run returns what a program prints, and fails the test if it fails.
func run(t *testing.T, input []byte, name string, arguments ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	var problems bytes.Buffer
	command.Stdin, command.Stderr = bytes.NewReader(input), &problems
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, problems.String())
	}
	return output
}
