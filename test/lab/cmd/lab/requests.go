package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

const (
	// targetSocket is the socket for requests for targets. Only root can write to it.
	targetSocket = "target.sock"

	// Each line of an answer begins with one of these words.
	progressWord, doneWord, failedWord = "progress ", "done ", "failed "
)

// prepareFunc makes a cluster of the lab a target, and returns the response.
type prepareFunc func(ctx context.Context, cluster string, progress lab.Progress) (string, error)

// socketPath is the socket of a lab, in the folder of its state.
func socketPath(name string) (string, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "labs", name, targetSocket), nil
}

// serveRequests handles requests until the context ends, one after another, because they share the machine.
func serveRequests(ctx context.Context, path string, prepare prepareFunc) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening for requests for targets: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			answer(ctx, connection, prepare)
		}
	})
	return func() {
		cancel()
		_ = listener.Close()
		serving.Wait()
	}, nil
}

// answer handles one request. It ends early when the client disconnects.
func answer(ctx context.Context, connection net.Conn, prepare prepareFunc) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	release := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer release()
	defer func() { _ = connection.Close() }()
	reader := bufio.NewReader(connection)
	request, err := reader.ReadString('\n')
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, reader)
		cancel()
	}()
	var mutex sync.Mutex
	say := func(word, text string) {
		mutex.Lock()
		defer mutex.Unlock()
		for line := range strings.Lines(text) {
			_, _ = fmt.Fprintln(connection, word+strings.TrimSuffix(line, "\n"))
		}
	}
	result, err := prepare(ctx, strings.TrimSpace(request), func(format string, values ...any) {
		say(progressWord, fmt.Sprintf(format, values...))
	})
	switch {
	case ctx.Err() != nil:
		// The lab stops, or the client has disconnected.
	case err != nil:
		say(failedWord, err.Error())
	default:
		say(doneWord, result)
	}
}

// requestTarget requests a target from the process of a lab, and writes its response.
func requestTarget(ctx context.Context, path, name, cluster string, output io.Writer) error {
	connection, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("no process runs lab %s: start it with lab up --name %[1]s", name)
	}
	if err != nil {
		return fmt.Errorf("connecting to the process of lab %s: %w", name, err)
	}
	defer func() { _ = connection.Close() }()
	release := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer release()
	if _, err := fmt.Fprintln(connection, cluster); err != nil {
		return fmt.Errorf("sending a request to the process of lab %s: %w", name, err)
	}
	done, failures := false, []string{}
	lines := bufio.NewScanner(connection)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, progressWord):
			fmt.Fprintln(os.Stderr, strings.TrimPrefix(line, progressWord))
		case strings.HasPrefix(line, doneWord):
			done = true
			fmt.Fprintln(output, strings.TrimPrefix(line, doneWord))
		case strings.HasPrefix(line, failedWord):
			failures = append(failures, strings.TrimPrefix(line, failedWord))
		}
	}
	switch {
	case len(failures) > 0:
		return errors.New(strings.Join(failures, "\n"))
	case !done:
		return errors.Join(fmt.Errorf("lab %s stopped before the target was ready", name), context.Cause(ctx))
	default:
		return nil
	}
}
