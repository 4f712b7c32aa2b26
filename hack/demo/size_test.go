package main

import (
	"strings"
	"testing"
)

func TestReadSize(t *testing.T) {
	cases := map[string]struct {
		reason      string
		environment map[string]string
		want        size
		problem     string
	}{
		"Nothing": {
			reason: "the smallest cluster that tolerates the loss of a node",
			want:   size{name: "demo", controlPlanes: 3, workers: 1, hosts: 5, pivot: true},
		},
		"Life": {
			reason:      "the smallest cluster with control plane and worker",
			environment: map[string]string{"DEMO_STORY": "life"},
			want:        size{name: "demo", controlPlanes: 1, workers: 1, hosts: 3},
		},
		"Larger": {
			reason:      "the number of hosts depends on the nodes",
			environment: map[string]string{"DEMO_CONTROL_PLANES": "5", "DEMO_WORKERS": "2", "DEMO_NAME": "large"},
			want:        size{name: "large", controlPlanes: 5, workers: 2, hosts: 8, pivot: true},
		},
		"Keep": {
			reason: "more hosts, and a lab that is kept", environment: map[string]string{"DEMO_HOSTS": "6", "DEMO_KEEP": "1"},
			want: size{name: "demo", controlPlanes: 3, workers: 1, hosts: 6, keep: true, pivot: true},
		},
		"TooFewNodes": {
			reason: "a pivot requires three control-plane nodes", environment: map[string]string{"DEMO_CONTROL_PLANES": "1"},
			problem: "DEMO_CONTROL_PLANES is \"1\": give a number from 3",
		},
		"NoStory": {reason: "a typo", environment: map[string]string{"DEMO_STORY": "move"}, problem: `DEMO_STORY is "move"`},
		"TooFewHosts": {
			reason: "scaling up requires another host", environment: map[string]string{"DEMO_HOSTS": "2"}, problem: "DEMO_HOSTS",
		},
		"NoNumber": {reason: "a typo", environment: map[string]string{"DEMO_WORKERS": "two"}, problem: `DEMO_WORKERS is "two"`},
		"NoQuorum": {
			reason: "etcd requires an odd number", environment: map[string]string{"DEMO_CONTROL_PLANES": "4"}, problem: "DEMO_CONTROL_PLANES is 4",
		},
		"TooMany": {reason: "the number of addresses is limited", environment: map[string]string{"DEMO_WORKERS": "70"}, problem: "at most"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := readSize(func(name string) string { return tc.environment[name] })
			switch {
			case tc.problem != "" && (err == nil || !strings.Contains(err.Error(), tc.problem)):
				t.Errorf("%s: the error is %v, want one about %q", tc.reason, err, tc.problem)
			case tc.problem == "" && (err != nil || got != tc.want):
				t.Errorf("%s: got %+v and %v, want %+v", tc.reason, got, err, tc.want)
			}
		})
	}
}
