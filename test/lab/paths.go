package lab

// ArtefactsFolder is where Start leaves what explains a failure, and where CollectArtefacts may.
func (l *Lab) ArtefactsFolder() string { return l.options.Artefacts }

// KubectlPath is a kubectl of the version of the cluster.
func (c *Cluster) KubectlPath() string { return c.kubectl }
