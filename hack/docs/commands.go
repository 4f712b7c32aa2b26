package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"
)

// installation is the page whose commands the runbook repeats.
const installation = "docs/installation.md"

var (
	stepHeading = regexp.MustCompile(`(?m)^## (\d+)\. (.+)$`)
	shellBlock  = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
	settings    = regexp.MustCompile(`(?ms)^cat > clusterctl\.yaml <<END\n(.*?)^END$`)
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

// clusterctlSettings returns the file clusterctl.yaml that the installation writes.
func clusterctlSettings(page string) (map[string]any, error) {
	text := settings.FindStringSubmatch(page)
	if text == nil {
		return nil, fmt.Errorf("%s does not write clusterctl.yaml: add cat > clusterctl.yaml <<END", installation)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(text[1]), &values); err != nil {
		return nil, fmt.Errorf("reading clusterctl.yaml of %s: %w", installation, err)
	}
	return values, nil
}

// example renders the flavour ironic with the values of the installation.
func example(root, page string) (string, error) {
	template, err := os.ReadFile(filepath.Join(root, "templates", "cluster-template-ironic.yaml"))
	if err != nil {
		return "", fmt.Errorf("reading a template: %w", err)
	}
	values, err := clusterctlSettings(page)
	if err != nil {
		return "", err
	}
	arguments := map[string]string{
		"CLUSTER_NAME": "my-cluster", "NAMESPACE": "metal3", "KUBERNETES_VERSION": "v1.36.3",
		"CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "1",
	}
	filled, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) {
		if value, given := arguments[name]; given {
			return value, nil
		}
		if value, set := values[name].(string); set {
			return value, nil
		}
		return "", fmt.Errorf("variable %s has no value", name)
	})
	if err != nil {
		return "", fmt.Errorf("rendering the flavour ironic: %w", err)
	}
	return "```yaml\n" + strings.TrimSpace(string(filled)) + "\n```\n", nil
}

// installationParts returns the parts of the installation that other pages repeat.
func installationParts(root string) (map[string]string, error) {
	page, err := os.ReadFile(filepath.Join(root, installation))
	if err != nil {
		return nil, fmt.Errorf("reading the installation: %w", err)
	}
	parts := commandParts(string(page))
	parts["example ironic"], err = example(root, string(page))
	return parts, err
}
