package main

import (
	"math"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     string
		want   stat
		fails  bool
	}{
		"Plain": {
			reason: "User and kernel time add up.",
			in:     "42 (manager) S 7 42 42 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 12 0 100 1 2",
			want:   stat{id: 42, parent: 7, name: "manager", processor: 2 * time.Second},
		},
		"Name": {
			reason: "A name may hold spaces and parentheses.",
			in:     "42 (a) (b c) S 7 42 42 0 -1 4194304 1 2 3 4 100 0 0 0 20 0 12 0 100 1 2",
			want:   stat{id: 42, parent: 7, name: "a) (b c", processor: time.Second},
		},
		"Short":    {reason: "A line that is cut off.", in: "42 (manager) S 7", fails: true},
		"NoNumber": {reason: "Another form.", in: "x (manager) S 7 42 42 0 -1 4194304 1 2 3 4 150 50 0", fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(tc.in)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("%s\nparseStat() = %+v, %v, want %+v, an error: %t", tc.reason, got, err, tc.want, tc.fails)
			}
		})
	}
}

func TestPeakMemory(t *testing.T) {
	got, err := peakMemory("Name:\tmanager\nVmPeak:\t  900 kB\nVmHWM:\t    64 kB\nVmRSS:\t    32 kB\n")
	if err != nil || got != 64<<10 {
		t.Errorf("peakMemory() = %d, %v, want %d", got, err, 64<<10)
	}
	for _, broken := range []string{"", "VmHWM:\tmuch\n"} {
		if _, err := peakMemory(broken); err == nil {
			t.Errorf("peakMemory(%q) succeeded, want an error", broken)
		}
	}
}

func TestExponent(t *testing.T) {
	cases := map[string]struct{ y1, y2, want float64 }{
		"Constant":  {y1: 3, y2: 3, want: 0},
		"Linear":    {y1: 2, y2: 20, want: 1},
		"Quadratic": {y1: 2, y2: 200, want: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := exponent(100, 1000, tc.y1, tc.y2); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("exponent() = %f, want %f", got, tc.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	parsed, err := parse([]string{"-sizes", "300, 100", "-competitors", "8"})
	if err != nil || len(parsed.sizes) != 2 || parsed.sizes[0] != 100 || parsed.competitors != 8 {
		t.Errorf("parse() = %+v, %v, want the sizes in order and 8 competitors", parsed, err)
	}
	if parsed, err := parse([]string{"-arrivals"}); err != nil || !parsed.association {
		t.Errorf("parse() = %+v, %v, want the association alone", parsed, err)
	}
	for name, args := range map[string][]string{
		"NoNumber": {"-sizes", "many"}, "Zero": {"-sizes", "0"}, "Negative": {"-competitors", "-1"},
		"Contested": {"-arrivals", "-competitors", "8"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%s: parse(%q) succeeded, want an error", name, args)
		}
	}
}
