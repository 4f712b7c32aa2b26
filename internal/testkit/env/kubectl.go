package env

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
)

// Kubectl runs a kubectl of the version of the server as cluster administrator and returns its output.
func (s *Server) Kubectl(ctx context.Context, args ...string) (string, error) {
	return s.KubectlWithInput(ctx, nil, args...)
}

// KubectlWithInput is Kubectl with standard input, for apply -f -.
func (s *Server) KubectlWithInput(ctx context.Context, input io.Reader, args ...string) (string, error) {
	path, err := s.programs.optional(ctx, "kubectl")
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, path, append([]string{"--kubeconfig=" + s.Kubeconfig}, args...)...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = input, &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running kubectl %v: %w\n%s", args, err, stderr.String())
	}
	return stdout.String(), nil
}
