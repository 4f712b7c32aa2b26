package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// installation is the page whose commands the runbook repeats.
const installation = "docs/installation.md"

var (
	stepHeading = regexp.MustCompile(`(?m)^## (\d+)\. (.+)$`)
	shellBlock  = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
)

// commandParts returns the commands of each step of the installation, by part.
func commandParts(page string) map[string]string {
	parts := map[string]string{}
	steps := stepHeading.FindAllStringSubmatchIndex(page, -1)
	for _, step := range steps {
		section, _, _ := strings.Cut(page[step[1]:], "\n## ")
		var commands strings.Builder
		for _, block := range shellBlock.FindAllStringSubmatch(section, -1) {
			commands.WriteString(block[1])
		}
		if commands.Len() == 0 {
			continue
		}
		title := strings.ReplaceAll(strings.ToLower(page[step[4]:step[5]]), " ", "-")
		parts["commands "+page[step[2]:step[3]]+"-"+title] = "```sh\n" + commands.String() + "```\n"
	}
	return parts
}

// installationParts returns the parts of the installation that other pages repeat.
func installationParts(root string) (map[string]string, error) {
	page, err := os.ReadFile(filepath.Join(root, installation))
	if err != nil {
		return nil, fmt.Errorf("reading the installation: %w", err)
	}
	return commandParts(string(page)), nil
}
