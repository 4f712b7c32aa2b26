package endpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/image"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

const (
	nodeOfTest = "node-1"
	// grace is the time for a container to end, that of the pod with Ironic.
	grace = 30 * time.Second
)

// pod runs the containers of a manifest like a kubelet: with the root file system of the image, the volumes, the
// environment, the user and its capabilities. The network is that of the test.
type pod struct {
	spec corev1.PodSpec
	// images are the images by their names in the manifest.
	images map[string]image.Image
	// folder has a folder for each volume, by its name. Volumes with the same name are one folder in all pods.
	folder string
}

// readPod reads a manifest of this provider, for a node with this folder.
func readPod(t *testing.T, path, folder string, images map[string]image.Image) *pod {
	t.Helper()
	content, err := os.ReadFile(fromTop(path))
	if err != nil {
		t.Fatal(err)
	}
	var manifest corev1.Pod
	if err := yaml.UnmarshalStrict(content, &manifest); err != nil {
		t.Fatal(err)
	}
	result := &pod{spec: manifest.Spec, images: images, folder: folder}
	for _, volume := range manifest.Spec.Volumes {
		if err := os.MkdirAll(result.volume(volume.Name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return result
}

// fromTop returns the path of a file of the checkout.
func fromTop(path string) string { return filepath.Join("..", "..", "..", path) }

func (p *pod) volume(name string) string { return filepath.Join(p.folder, name) }

// prepare runs the init containers.
func (p *pod) prepare(t *testing.T) {
	t.Helper()
	for _, container := range p.spec.InitContainers {
		running := p.start(t, container.Name)
		<-running.done
		if running.ended != nil {
			t.Fatalf("container %s: %v", container.Name, running.ended)
		}
	}
}

// container is a running container.
type container struct {
	command *exec.Cmd
	done    chan struct{}
	ended   error

	mutex sync.Mutex
	lines []string
}

// start runs a container of the pod until stop or the end of the test.
func (p *pod) start(t *testing.T, name string) *container {
	t.Helper()
	all := slices.Concat(p.spec.InitContainers, p.spec.Containers)
	index := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name })
	if index < 0 {
		t.Fatalf("the pod has no container %s", name)
	}
	found := all[index]
	packed, known := p.images[found.Image]
	if !known {
		t.Fatalf("container %s has the unknown image %s", name, found.Image)
	}
	place := ironic.Place{Root: packed.Folder, Scratch: t.TempDir(), Shared: map[string]string{}}
	if place.Root == "" {
		place.Root = emptyRoot(t)
	}
	for _, mount := range found.VolumeMounts {
		// Without an API server, the guard does not require the kubeconfig of the kubelet.
		if mount.MountPath == "/etc/kubernetes/kubelet.conf" {
			continue
		}
		source := filepath.Join(p.volume(mount.Name), mount.SubPath)
		// The kubelet creates a missing folder too.
		if err := os.MkdirAll(source, 0o750); err != nil && !errors.Is(err, unix.ENOTDIR) {
			t.Fatal(err)
		}
		place.Shared[mount.MountPath] = source
	}
	running := &container{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(running.done)
		running.ended = thread.Own(func() error { return running.live(t, place, packed, found, started) })
	}()
	if err := <-started; err != nil {
		<-running.done
		t.Fatalf("starting container %s: %v", name, err)
	}
	t.Cleanup(func() { running.stop() })
	return running
}

// emptyRoot returns a root file system for an image with files only.
func emptyRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range []string{"dev", "proc", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// live runs a container on one thread until its end.
func (c *container) live(
	t *testing.T, place ironic.Place, packed image.Image, spec corev1.Container, started chan<- error,
) error {
	t.Helper()
	output, input, err := os.Pipe()
	if err != nil {
		started <- err
		return nil
	}
	defer func() { _ = output.Close() }()
	err = place.Enter()
	if err == nil {
		err = writeFiles(place.View(), packed.Files)
	}
	if err == nil {
		c.command = newCommand(t.Context(), place.View(), packed, spec)
		c.command.Stdout, c.command.Stderr = input, input
		// Container runtimes do the same: a program opens /dev/stderr as its own user.
		err = errors.Join(input.Chown(int(*spec.SecurityContext.RunAsUser), int(*spec.SecurityContext.RunAsGroup)),
			c.command.Start())
	}
	started <- errors.Join(err, input.Close())
	if err != nil {
		return place.Leave()
	}
	c.follow(t, spec.Name, output)
	return errors.Join(c.command.Wait(), place.Leave())
}

// follow stores the output of a container.
func (c *container) follow(t *testing.T, name string, output io.Reader) {
	t.Helper()
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		_, _ = io.WriteString(t.Output(), name+": "+lines.Text()+"\n")
		c.mutex.Lock()
		c.lines = append(c.lines, lines.Text())
		c.mutex.Unlock()
	}
}

// said returns true if the output of a container contains a text.
func (c *container) said(text string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.ContainsFunc(c.lines, func(line string) bool { return strings.Contains(line, text) })
}

// stop ends a container as a kubelet does, and returns false if it did not end in time.
func (c *container) stop() bool {
	_ = c.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
		return true
	case <-time.After(grace):
		c.kill()
		return false
	}
}

// kill kills a container.
func (c *container) kill() {
	_ = c.command.Process.Kill()
	<-c.done
}

// stopAll stops the first process of a container, and then its children: a web server forks further children at any
// time. The function it returns continues them.
func (c *container) stopAll(t *testing.T) (resume func()) {
	t.Helper()
	stopped := []int{c.command.Process.Pid}
	stop(t, stopped[0])
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", stopped[0], stopped[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			t.Fatal(err)
		}
		stop(t, pid)
		stopped = append(stopped, pid)
	}
	return func() {
		for _, pid := range stopped {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Error(err)
			}
		}
	}
}

// stop stops all threads of a process. Each of them still runs until the kernel delivers the signal.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wait(t, fmt.Sprintf("process %d is stopped", pid), func() error { return isStopped(pid) })
}

func isStopped(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return errors.Join(err, errors.New("it ended"))
	}
	for _, thread := range threads {
		// A thread may have ended meanwhile, and a zombie does not stop.
		content, err := os.ReadFile(thread)
		_, state, _ := strings.Cut(string(content), ") ")
		if err == nil && !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "Z") {
			return errors.New("a thread runs: " + string(content))
		}
	}
	return nil
}

// newCommand returns the first process of a container.
func newCommand(ctx context.Context, root string, packed image.Image, spec corev1.Container) *exec.Cmd {
	arguments := slices.Concat(spec.Command, spec.Args)
	if len(spec.Command) == 0 {
		arguments = slices.Concat(packed.Entrypoint, spec.Args)
	}
	variables := map[string]string{}
	command := exec.CommandContext(context.WithoutCancel(ctx), arguments[0], arguments[1:]...)
	command.Dir = "/"
	command.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, packed.Environment...)
	for _, variable := range spec.Env {
		value := variable.Value
		if variable.ValueFrom != nil {
			value = nodeOfTest
		}
		for name, earlier := range variables {
			value = strings.ReplaceAll(value, "$("+name+")", earlier)
		}
		variables[variable.Name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		command.Env = append(command.Env, name+"="+variables[name])
	}
	user, group := uint32(*spec.SecurityContext.RunAsUser), uint32(*spec.SecurityContext.RunAsGroup)
	command.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: user, Gid: group},
	}
	return command
}

// writeFiles writes the files of an image into its root file system.
func writeFiles(root string, files []image.File) error {
	for _, file := range files {
		target := filepath.Join(root, file.Path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := writeFile(target, file); err != nil {
			return err
		}
	}
	return unix.Chmod(filepath.Join(root, "tmp"), 0o1777)
}

func writeFile(target string, file image.File) error {
	if file.Link != "" {
		return os.Symlink(file.Link, target)
	}
	content, mode := file.Content, os.FileMode(0o644)
	if file.From != "" {
		status, err := os.Stat(file.From)
		if err != nil {
			return err
		}
		mode = status.Mode().Perm()
		if content, err = os.ReadFile(file.From); err != nil {
			return err
		}
	}
	return os.WriteFile(target, content, mode)
}
