package main

import (
	"fmt"
	"strconv"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// size is the settings of the demo from the environment.
type size struct {
	name                          string
	controlPlanes, workers, hosts int
	keep                          bool
	// pivot is true for the story of a pivot. Otherwise the cluster is scaled and deleted.
	pivot bool
}

// leastControlPlanes is the number of control-plane nodes that the story requires.
func (s size) leastControlPlanes() int {
	if s.pivot {
		return 3
	}
	return 1
}

// machines returns the maximum number of running machines: the management machine, the nodes, and one more worker.
func (s size) machines() int { return 1 + s.controlPlanes + s.workers + 1 }

// readSize reads the variables of the demo. There are enough hosts for the cluster, and one more for scaling up.
func readSize(getenv func(string) string) (size, error) {
	read := size{name: "demo", controlPlanes: 1, workers: 1, keep: getenv("DEMO_KEEP") == "1", pivot: true}
	switch story := getenv("DEMO_STORY"); story {
	case "", "pivot":
		// One control-plane node can be lost.
		read.controlPlanes = 3
	case "life":
		read.pivot = false
	default:
		return size{}, fmt.Errorf("DEMO_STORY is %q: give pivot or life", story)
	}
	if name := getenv("DEMO_NAME"); name != "" {
		read.name = name
	}
	for _, variable := range []struct {
		name    string
		value   *int
		minimum func() int
	}{
		{"DEMO_CONTROL_PLANES", &read.controlPlanes, read.leastControlPlanes},
		{"DEMO_WORKERS", &read.workers, func() int { return 1 }},
		{"DEMO_HOSTS", &read.hosts, func() int { return read.controlPlanes + read.workers + 1 }},
	} {
		*variable.value = max(*variable.value, variable.minimum())
		text := getenv(variable.name)
		if text == "" {
			continue
		}
		number, err := strconv.Atoi(text)
		if err != nil || number < variable.minimum() || number > lab.MaxHosts {
			return size{}, fmt.Errorf("%s is %q: give a number from %d to %d",
				variable.name, text, variable.minimum(), lab.MaxHosts)
		}
		*variable.value = number
	}
	if read.controlPlanes%2 == 0 {
		return size{}, fmt.Errorf("DEMO_CONTROL_PLANES is %d: give an odd number, etcd needs a majority", read.controlPlanes)
	}
	if read.hosts > lab.MaxHosts {
		return size{}, fmt.Errorf("%d control-plane nodes, %d workers and one more host make %d: a lab has at most %d",
			read.controlPlanes, read.workers, read.hosts, lab.MaxHosts)
	}
	return read, nil
}
