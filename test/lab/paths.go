package lab

import "path/filepath"

// Template is the file of the cluster template for the machines of a lab, for clusterctl generate cluster --from.
func (l *Lab) Template() string {
	return filepath.Join(l.checkout, "test", "lab", "templates", "cluster-template-lab.yaml")
}

// ArtefactsFolder is where Start leaves what explains a failure, and where CollectArtefacts may.
func (l *Lab) ArtefactsFolder() string { return l.options.Artefacts }

// KubectlPath is a kubectl of the version of the cluster.
func (c *Cluster) KubectlPath() string { return c.kubectl }
