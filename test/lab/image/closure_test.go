package image

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProgramsFollowLinksInsideTheRoot(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "usr/sbin/xtables-nft-multi"), "#!/bin/sh", 0o755)
	write(t, filepath.Join(root, "usr/lib/x/xtables/libxt_statistic.so"), "module", 0o644)
	if err := os.MkdirAll(filepath.Join(root, "etc/alternatives"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.Symlink("usr/sbin", filepath.Join(root, "sbin")),
		os.Symlink("/etc/alternatives/iptables", filepath.Join(root, "usr/sbin/iptables")),
		os.Symlink("/sbin/../usr/sbin/iptables-nft", filepath.Join(root, "etc/alternatives/iptables")),
		os.Symlink("xtables-nft-multi", filepath.Join(root, "usr/sbin/iptables-nft")),
		os.Symlink("endless", filepath.Join(root, "usr/sbin/endless")),
	); err != nil {
		t.Fatal(err)
	}
	got, err := Programs(root, "iptables", "/usr/lib/*/xtables/*.so")
	if err != nil {
		t.Fatal(err)
	}
	want := []File{
		{Path: "/sbin", Link: "usr/sbin"},
		{Path: "/usr/lib/x/xtables/libxt_statistic.so", From: filepath.Join(root, "usr/lib/x/xtables/libxt_statistic.so")},
		{Path: "/usr/sbin/iptables", Link: "/usr/sbin/xtables-nft-multi"},
		{Path: "/usr/sbin/xtables-nft-multi", From: filepath.Join(root, "usr/sbin/xtables-nft-multi")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, words := range map[string]string{"missing": "missing is not in " + root, "endless": "do not end"} {
		if _, err := Programs(root, name); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
