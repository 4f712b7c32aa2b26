package ironic

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// correction repairs a fault of the packaged Ironic that no provisioner can live with.
type correction struct {
	reason, file, old, new string
}

var corrections = []correction{{
	// Debian's 29.0.5-0+deb13u3 has an early version of the fix for CVE-2026-44918. The function returns the node itself
	// where the request does not name a parent; the caller takes that for the parent. A node that is its own parent
	// cannot be switched on: that wants the lock which the request itself holds. Ironic 29.0.6 compares the UUIDs.
	reason: "a PATCH of any field makes a node its own parent",
	file:   pythonPackages + "/ironic/api/controllers/v1/node.py",
	old: `        if parent_node := api_utils.authorize_node_link_patch(
                rpc_node, patch, 'parent_node'):
`,
	new: `        if (parent_node := api_utils.authorize_node_link_patch(
                rpc_node, patch, 'parent_node')) is not rpc_node:
`,
}}

// correct applies the corrections. A package that has become right is left alone.
func correct(dir string, progress io.Writer) error {
	for _, correction := range corrections {
		path := filepath.Join(dir, correction.file)
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("correcting Ironic (%s): %w", correction.reason, err)
		}
		if !bytes.Contains(content, []byte(correction.old)) {
			fmt.Fprintf(progress, "[ironic] not corrected, the package has changed: %s\n", correction.reason)
			continue
		}
		content = bytes.ReplaceAll(content, []byte(correction.old), []byte(correction.new))
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("correcting Ironic (%s): %w", correction.reason, err)
		}
	}
	return nil
}
