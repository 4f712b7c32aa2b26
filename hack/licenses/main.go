// Command licenses checks the licences of all modules that are linked into the programs of this provider: the manager,
// the guard and the plugin.
//
// It reads the licence files of the modules in the module cache, and recognises licences by unique sentences. All
// licences of a file must be allowed. It returns an error for a module without a licence file, and for an unknown
// licence, which a maintainer must then read.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// allowed are the licences that a program under the Apache License 2.0 may link, with attribution only.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// module is the output of the go command for a module.
type module struct{ Path, Version, Dir string }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "licenses: FAILED:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	modules, err := linked(ctx, root)
	if err != nil {
		return err
	}
	return report(modules, os.Stdout)
}

// report checks all modules, and returns all problems.
func report(modules []module, output io.Writer) error {
	var failures []error
	count := map[string]int{}
	for _, each := range modules {
		found, err := licensesOf(each)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		for _, name := range found {
			count[name]++
			if !slices.Contains(allowed, name) {
				failures = append(failures, fmt.Errorf(
					"module %s %s has the licence %s: replace the module, or allow the licence", each.Path, each.Version, name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(output, "%4d modules: %s\n", count[name], name)
	}
	return errors.Join(failures...)
}

// linked returns the modules with packages of the three programs.
func linked(ctx context.Context, root string) ([]module, error) {
	command := exec.CommandContext(ctx, "go", "list", "-deps", "-tags=fieldsv1string", "-f",
		`{{with .Module}}{{if not .Main}}{"Path":"{{.Path}}","Version":"{{.Version}}","Dir":"{{.Dir}}"}{{end}}{{end}}`,
		".", "./cmd/...")
	command.Dir = root
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("listing modules: %w\n%s", err, problems.String())
	}
	found := map[module]bool{}
	decoder := json.NewDecoder(bytes.NewReader(output))
	for decoder.More() {
		var each module
		if err := decoder.Decode(&each); err != nil {
			return nil, fmt.Errorf("reading the list of modules: %w", err)
		}
		found[each] = true
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b module) int { return strings.Compare(a.Path, b.Path) }), nil
}

// licensesOf reads the licence files in the folder of a module.
func licensesOf(of module) ([]string, error) {
	var found []string
	files, err := os.ReadDir(of.Dir)
	if err != nil {
		return nil, fmt.Errorf("reading module %s (run go mod download): %w", of.Path, err)
	}
	read := 0
	for _, file := range files {
		name := strings.ToUpper(file.Name())
		// Documents of a module are not linked, so their licence has no effect.
		if file.IsDir() || strings.HasSuffix(name, ".DOCS") ||
			!strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(of.Dir, file.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the licence of module %s: %w", of.Path, err)
		}
		read++
		recognised := recognise(string(content))
		if len(recognised) == 0 {
			return nil, fmt.Errorf("module %s %s has an unknown licence in %s: add it to hack/licenses, or "+
				"replace the module", of.Path, of.Version, file.Name())
		}
		found = append(found, recognised...)
	}
	if read == 0 {
		return nil, fmt.Errorf("module %s %s has no licence file: replace the module", of.Path, of.Version)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// sentences are unique sentences of each licence.
var sentences = []struct{ license, sentence string }{
	{"AGPL", "gnu affero general public license"},
	{"LGPL", "gnu lesser general public license"},
	{"GPL", "gnu general public license"},
	{"MPL-2.0", "mozilla public license"},
	{"EPL", "eclipse public license"},
	{"Apache-2.0", "apache license"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose with or without fee"},
}

// recognise returns the licences of a text, each once.
func recognise(text string) []string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	var found []string
	for _, each := range sentences {
		if strings.Contains(text, each.sentence) {
			found = append(found, each.license)
		}
	}
	if strings.Contains(text, "redistribution and use in source and binary forms") {
		if strings.Contains(text, "neither the name") {
			found = append(found, "BSD-3-Clause")
		} else {
			found = append(found, "BSD-2-Clause")
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
