package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMachineReasons(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	const text = "| Condition | Reason | Meaning | What to do |\n" +
		"| --- | --- | --- | --- |\n" +
		"| `Deleting` (Metal3Cluster) | `Waiting` | machines are left | wait |\n" +
		"| `Deleting` (Metal3Machine) | `Released` | see [there](spec/metal3machine.md) | nothing |\n" +
		"| `NodeLinked` | `NodeLinked` | a\\|b | nothing |\n" +
		"| `NodeLabelsSynced` | `Synced` | labels | nothing |\n" +
		"| `Paused` (Metal3Machine, Metal3Remediation) | `Elsewhere` | another manager | nothing |\n" +
		"| `Deleting` (Metal3MachineTemplate) | `InUse` | of another kind | nothing |\n" +
		"| `Deleting` (all kinds) | `Failed` | an error | correct it |\n" +
		"| `Paused` (all kinds) | `Paused` | all kinds | nothing |\n" +
		"| `Provided` (Metal3Cluster), `AssociateBareMetalHost` (Metal3Machine) | `Waiting` | both | wait |\n" +
		"| `NodeLinked`, `Deleting` (Metal3Machine), `Ready` (Metal3MachineTemplate) | `Invalid` | both | correct it |\n" +
		"\n| `NodeLinked` is another table | with two columns |\n"
	if err := os.WriteFile(filepath.Join(folder, troubleshooting), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "| Condition | Reason | Meaning | What to do |\n" +
		"| --- | --- | --- | --- |\n" +
		"| `Deleting` | `Released` | see [there](metal3machine.md) | nothing |\n" +
		"| `NodeLinked` | `NodeLinked` | a\\|b | nothing |\n" +
		"| `NodeLabelsSynced` | `Synced` | labels | nothing |\n" +
		"| `Paused` | `Elsewhere` | another manager | nothing |\n" +
		"| `Deleting` | `Failed` | an error | correct it |\n" +
		"| `AssociateBareMetalHost` | `Waiting` | both | wait |\n" +
		"| `NodeLinked`, `Deleting` | `Invalid` | both | correct it |\n"
	got, err := machineReasons(folder)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows about machines are taken, and their links lead on from docs/spec: -want, +got:\n%s", diff)
	}
}
