package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Files with the values of users.
const (
	valuesFile = "config/ironic/values/values.env"
	peersFile  = "config/ironic/values/peers.yaml"
)

// values are the values of both files.
type values struct {
	// variables of valuesFile by their names.
	variables map[string]string

	// peers of peersFile.
	peers []string
}

func readValues(root string) (values, error) {
	content, err := os.ReadFile(filepath.Join(root, valuesFile))
	if err != nil {
		return values{}, fmt.Errorf("reading values: %w", err)
	}
	found := map[string]string{}
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		name, value, _ := strings.Cut(line, "=")
		if line != "" && !strings.HasPrefix(line, "#") {
			found[name] = value
		}
	}
	content, err = os.ReadFile(filepath.Join(root, peersFile))
	if err != nil {
		return values{}, fmt.Errorf("reading peers: %w", err)
	}
	var object struct {
		Peers []string `json:"peers"`
	}
	if err := yaml.Unmarshal(content, &object); err != nil {
		return values{}, fmt.Errorf("reading peers: %s: %w", peersFile, err)
	}
	return values{variables: found, peers: object.Peers}, nil
}

// placeholders returns the values for rendering, instead of those of an installation.
func placeholders() values {
	variables := map[string]string{}
	for _, value := range allValues() {
		variables[value.name] = value.placeholder
	}
	return values{variables: variables}
}
