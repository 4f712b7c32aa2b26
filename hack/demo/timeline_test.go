package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

func TestTally(t *testing.T) {
	if got := tally("available", "provisioned", "available", ""); got != "1 new, 2 available, 1 provisioned" {
		t.Errorf("got %q", got)
	}
	if got := tally(); got != "none" {
		t.Errorf("got %q", got)
	}
}

func TestCalm(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	after := func(tenths int) time.Time { return began.Add(time.Duration(tenths) * 100 * time.Millisecond) }
	got := calm([]witness.Span{
		{From: began, To: after(10), Who: "a"}, {From: after(10), To: after(11), Who: witness.None},
		{From: after(11), To: after(20), Who: "a"}, {From: after(20), To: after(30), Who: witness.None},
		{From: after(30), To: after(40), Who: "b"}, {From: after(40), To: after(41), Who: "a and b"},
	})
	want := []witness.Span{
		{From: began, To: after(20), Who: "a"}, {From: after(20), To: after(30), Who: witness.None},
		{From: after(30), To: after(40), Who: "b"}, {From: after(40), To: after(41), Who: "a and b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
