// Package verdict checks rendered files with the programs that read them on a machine: keepalived, dnsmasq, cloud-init
// and Ignition.
//
// The package imitates none of them. Without keepalived or dnsmasq on this machine, a test continues without this
// check, and logs that. Without cloud-init or Ignition, the test is skipped.
//
// None of them changes the machine: keepalived and dnsmasq only check their files, cloud-init writes below a temporary
// directory, and only the parsers of Ignition are used.
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

// patience is the time limit of a program. Building that of Ignition takes longest.
const patience = 15 * time.Minute

// Keepalived checks a file for an interface of this machine with keepalived. Warnings are errors too, because
// keepalived ignores the statements that it warns of.
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

// someInterface returns an interface of this machine that keepalived can use.
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

// DNSMasq checks a file with dnsmasq.
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

// check runs a program whose last argument is a file, and returns its output.
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

// run returns the output of a program, and fails the test if the program fails.
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
