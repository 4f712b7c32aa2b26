package ironic

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// correction fixes a fault of the packaged Ironic that BMO cannot work with.
type correction struct {
	reason, file, old, new string
}

var corrections = []correction{{
	// Debian's 29.0.5-0+deb13u3 has an early version of the fix for CVE-2026-44918. If the request names no parent, the
	// function returns the node itself, which the caller then treats as its parent. Such a node cannot be powered on: that
	// requires the lock of the request itself. Ironic 29.0.6 compares the UUIDs.
	reason: "a PATCH of any field makes a node its own parent",
	file:   pythonPackages + "/ironic/api/controllers/v1/node.py",
	old: `        if parent_node := api_utils.authorize_node_link_patch(
                rpc_node, patch, 'parent_node'):
`,
	new: `        if (parent_node := api_utils.authorize_node_link_patch(
                rpc_node, patch, 'parent_node')) is not rpc_node:
`,
}}

// correct applies the corrections. It does not change a package that has been fixed.
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
