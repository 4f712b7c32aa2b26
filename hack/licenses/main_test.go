package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

const (
	apache = "Apache License\n   Version 2.0, January 2004"
	mit    = "Permission is hereby granted, free of charge,\nto any person obtaining a copy"
	bsd    = "Redistribution and use in source and binary forms, with or without modification"
	gpl    = "GNU GENERAL PUBLIC LICENSE\nVersion 3"
)

func TestRecognise(t *testing.T) {
	cases := map[string]struct {
		reason, text string
		want         []string
	}{
		"Apache":  {"line breaks and case do not matter", apache, []string{"Apache-2.0"}},
		"Two":     {"a file may hold two licences", mit + "\n\n" + apache, []string{"Apache-2.0", "MIT"}},
		"BSD2":    {"without a clause about names", bsd, []string{"BSD-2-Clause"}},
		"BSD3":    {"with it", bsd + " Neither the name of", []string{"BSD-3-Clause"}},
		"GPL":     {"a licence that is not allowed", gpl, []string{"GPL"}},
		"Unknown": {"an unknown licence", "All rights reserved", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, recognise(tc.text)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	cases := map[string]struct {
		reason  string
		files   map[string]string
		wantErr string
	}{
		"Allowed": {"a licence of the list", map[string]string{"LICENSE.md": mit}, ""},
		"Spelt":   {"the other spelling counts", map[string]string{"Licence": mit}, ""},
		"Refused": {"the licence is not allowed", map[string]string{"COPYING": gpl}, "m v1 has the licence GPL: replace the module"},
		"Second":  {"each file counts", map[string]string{"LICENSE": mit, "LICENSE.gpl": gpl}, "has the licence GPL"},
		"Missing": {"a licence file is required", map[string]string{"README": mit}, "m v1 has no licence file"},
		"Unknown": {"an unknown licence", map[string]string{"LICENSE": "?"}, "unknown licence in LICENSE"},
		"Docs":    {"documents are not linked", map[string]string{"LICENSE": mit, "LICENSE.docs": "?"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, content := range tc.files {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			if err := report([]module{{Path: "m", Version: "v1", Dir: folder}}, &strings.Builder{}); err != nil {
				got = err.Error()
			}
			if tc.wantErr == "" && got != "" || !strings.Contains(got, tc.wantErr) {
				t.Errorf("%s: got error %q, want %q", tc.reason, got, tc.wantErr)
			}
		})
	}
}

// TestLinked requires the modules of all three programs, without modules that only tests use.
func TestLinked(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := linked(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, each := range modules {
		found[each.Path] = true
	}
	if !found["sigs.k8s.io/controller-runtime"] || found["github.com/onsi/ginkgo/v2"] {
		t.Errorf("got modules %v", modules)
	}
}
