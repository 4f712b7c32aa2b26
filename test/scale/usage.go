package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTicks per second is the unit of processor time in /proc, on all Linux systems that Go supports.
const clockTicks = 100

// usage is the used time and memory of programs.
type usage struct {
	// manager, server, etcd and own are the processor times of the manager, the API server, etcd, and this program.
	manager, server, etcd, own time.Duration

	// memory is the peak resident memory of the manager in bytes.
	memory int64
}

// since returns the usage since an earlier time, with the peak memory of the whole run.
func (u usage) since(before usage) usage {
	return usage{
		manager: u.manager - before.manager, server: u.server - before.server, etcd: u.etcd - before.etcd,
		own: u.own - before.own, memory: u.memory,
	}
}

func (m *manager) usage() (usage, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(m.child.PID()), "status"))
	if err != nil {
		return usage{}, fmt.Errorf("reading what the manager uses: %w\n%s", err, m.child.LogTail())
	}
	var used usage
	if used.memory, err = peakMemory(string(status)); err != nil {
		return usage{}, err
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return usage{}, err
	}
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			// The process has ended meanwhile.
			continue
		}
		found, err := parseStat(string(content))
		if err != nil {
			return usage{}, err
		}
		switch {
		case found.id == m.child.PID():
			used.manager = found.processor
		case found.id == os.Getpid():
			used.own = found.processor
		case found.parent == os.Getpid() && found.name == "etcd":
			used.etcd += found.processor
		case found.parent == os.Getpid():
			used.server += found.processor
		}
	}
	return used, nil
}

// stat has fields of /proc/PID/stat.
type stat struct {
	id, parent int
	name       string
	processor  time.Duration
}

// parseStat parses /proc/PID/stat. The name of the program is in parentheses and may contain any characters.
func parseStat(content string) (stat, error) {
	const parent, user, kernel = 1, 11, 12
	id, rest, _ := strings.Cut(content, " ")
	end := strings.LastIndexByte(rest, ')')
	fields := strings.Fields(rest[end+1:])
	if len(fields) <= kernel {
		return stat{}, fmt.Errorf("parsing %q: too few fields", content)
	}
	var numbers [4]int64
	for i, field := range []string{id, fields[parent], fields[user], fields[kernel]} {
		var err error
		if numbers[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return stat{}, fmt.Errorf("parsing %q: %w", content, err)
		}
	}
	return stat{
		id:        int(numbers[0]),
		parent:    int(numbers[1]),
		name:      strings.TrimPrefix(rest[:max(end, 0)], "("),
		processor: time.Duration(numbers[2]+numbers[3]) * time.Second / clockTicks,
	}, nil
}

// peakMemory reads VmHWM from /proc/PID/status.
func peakMemory(status string) (int64, error) {
	for line := range strings.Lines(status) {
		value, found := strings.CutPrefix(line, "VmHWM:")
		if !found {
			continue
		}
		kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parsing %q: %w", line, err)
		}
		return kibibytes << 10, nil
	}
	return 0, errors.New("parsing the status of a process: it has no VmHWM")
}
