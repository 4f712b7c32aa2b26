package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
)

const (
	// collectLimit is the time limit for one part of the artefacts.
	collectLimit = 30 * time.Second

	// answerLimit is the time limit for a response of an API server. Nothing is collected from a slower one.
	answerLimit = 5 * time.Second

	// linesOfLog is the number of collected lines of each container log.
	linesOfLog = "2000"

	folderMode = 0o755
	fileMode   = 0o644
)

// CollectArtefacts writes data about a failure into a folder: of each cluster its objects, events and logs; of each
// machine its console, its journal and the files of the pods of an Ironic endpoint; and the requests to the BMCs. It
// omits Secrets. After an error it collects the other parts.
func (l *Lab) CollectArtefacts(ctx context.Context, folder string) error {
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return err
	}
	l.mutex.Lock()
	clusters := slices.Collect(maps.Values(l.clusters))
	l.mutex.Unlock()
	var failures []error
	for _, cluster := range clusters {
		failures = append(failures, cluster.collect(ctx, filepath.Join(folder, "cluster-"+cluster.Name)))
	}
	for _, name := range l.Machines() {
		failures = append(failures, l.collectMachine(ctx, name, filepath.Join(folder, "machine-"+name)))
	}
	failures = append(failures, l.collectOperations(filepath.Join(folder, "bmc.json")))
	return errors.Join(failures...)
}

// collect reads from the API server. It continues after an error.
func (c *Cluster) collect(ctx context.Context, folder string) error {
	kinds, err := c.kinds(ctx)
	if err != nil {
		return fmt.Errorf("collecting from cluster %s: %w", c.Name, err)
	}
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return err
	}
	commands := map[string][]string{
		"overview.txt": {"get", "nodes,pods", "--all-namespaces", "--output=wide"},
		"events.txt":   {"get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"},
		"dump.txt":     {"cluster-info", "dump", "--all-namespaces", "--output-directory=" + filepath.Join(folder, "dump")},
	}
	if kinds != "" {
		commands["objects.yaml"] = []string{"get", kinds, "--all-namespaces", "--output=yaml"}
	}
	var failures []error
	for file, args := range commands {
		failures = append(failures, func() error {
			ctx, cancel := context.WithTimeout(ctx, collectLimit)
			defer cancel()
			output, err := c.Kubectl(ctx, args...)
			return errors.Join(err, os.WriteFile(filepath.Join(folder, file), []byte(output), fileMode))
		}())
	}
	return errors.Join(failures...)
}

// kinds returns the kinds that were added to a cluster, in the format of kubectl.
func (c *Cluster) kinds(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var definitions apiextensionsv1.CustomResourceDefinitionList
	if err := c.Client.List(ctx, &definitions); err != nil {
		return "", err
	}
	names := make([]string, len(definitions.Items))
	for i := range definitions.Items {
		names[i] = definitions.Items[i].Name
	}
	return strings.Join(names, ","), nil
}

// collectMachine reads the journal on the machine, which can decode it, while the machine runs.
func (l *Lab) collectMachine(ctx context.Context, name, folder string) error {
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return err
	}
	machine := l.Machine(name)
	console, err := os.ReadFile(machine.Console())
	// A machine that never booted has no console output.
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("collecting the console of machine %s: %w", name, err)
	}
	failures := []error{os.WriteFile(filepath.Join(folder, "console.txt"), console, fileMode)}
	if !machine.Running() {
		return errors.Join(failures...)
	}
	for file, program := range map[string][]string{
		"journal.txt":    {"journalctl", "--no-pager", "--output=short-precise"},
		"cloud-init.txt": {"cat", "/var/log/cloud-init-output.log"},
		"addresses.txt":  {"ip", "address"},
		"containers.txt": {"ctr", "--namespace=k8s.io", "containers", "list"},
	} {
		failures = append(failures, func() error {
			ctx, cancel := context.WithTimeout(ctx, collectLimit)
			defer cancel()
			output, err := machine.Run(ctx, program...)
			return errors.Join(err, os.WriteFile(filepath.Join(folder, file), output, fileMode))
		}())
	}
	return errors.Join(errors.Join(failures...), l.collectIronic(ctx, machine, folder))
}

// collectIronic reads the files of the pods of an Ironic endpoint on their machine, which requires no API server: their
// logs, including ended containers, and the input and output of the guard. Other machines have no such files.
func (l *Lab) collectIronic(ctx context.Context, from *machine.Machine, folder string) error {
	var failures []error
	for file, part := range map[string]struct{ find, show []string }{
		"ironic-logs.txt": {
			find: []string{"/var/log/pods", "-path", "*metal3-*/*.log"},
			show: []string{"tail", "--verbose", "--lines=" + linesOfLog},
		},
		"ironic-state.txt": {
			// On the management machine, a volume of the pod has the content of a folder of the other machines.
			find: []string{
				"/run/metal3-ironic", "/etc/kubernetes/metal3-ironic/guard.json", "/var/lib/kubelet/pods", "(",
				"-path", "/run/metal3-ironic/*", "-o", "-name", "guard.json", "-o", "-path", "*~empty-dir/state/*", ")",
			},
			show: []string{"grep", "--with-filename", ""},
		},
	} {
		failures = append(failures, func() error {
			ctx, cancel := context.WithTimeout(ctx, collectLimit)
			defer cancel()
			// find returns an error for a missing folder, and lists the files of the others.
			found, _ := from.Run(ctx, append(append([]string{"find"}, part.find...), "-type", "f", "-size", "+0")...)
			files := strings.Fields(string(found))
			if len(files) == 0 {
				return nil
			}
			output, err := from.Run(ctx, append(part.show, files...)...)
			return errors.Join(err, os.WriteFile(filepath.Join(folder, file), output, fileMode))
		}())
	}
	return errors.Join(failures...)
}

func (l *Lab) collectOperations(path string) error {
	if l.bmc == nil {
		return nil
	}
	encoded, err := json.MarshalIndent(l.bmc.Operations(), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, encoded, fileMode)
}

// Machines returns the names of all machines of the lab, sorted.
func (l *Lab) Machines() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Sorted(maps.Keys(l.machines))
}
