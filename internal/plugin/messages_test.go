package plugin

import (
	"io"
	"regexp"
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// quotedCommand is a command of the plugin in a message.
var quotedCommand = regexp.MustCompile("`(clusterctl metal3 [^`]*)`")

// TestCommandsInMessages parses the commands that messages of the manager quote, with the commands of the plugin.
func TestCommandsInMessages(t *testing.T) {
	infra := runningInfra("c")
	left := pivot.Departure{Infras: map[string]pivot.Epoch{"c": 3}}
	left.Enter([]*bmov1alpha1.BareMetalHost{build.Host("host")})
	abandoned := build.Host("host", build.Paused(infrav1.HostPausedByProvider),
		build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: "1"}))
	around := []pivot.Neighbour{{Name: "c", Verified: true, Arrival: 3}}
	for name, tc := range map[string]struct {
		message  string
		commands []string
	}{
		"Superseded":   {pivot.SupersededMessage(infra, pivot.Claim{Epoch: 6, Manager: "uid"}), []string{"fence", "clean", "takeover"}},
		"RefusedHost":  {left.HostRefusal(build.Host("host")), []string{"forget"}},
		"RefusedInfra": {left.InfraRefusal(build.Metal3Cluster("c")), []string{"forget"}},
		"Revived":      {pivot.Revived("metal3", nil, pivot.Inventory{"Machine": {"m"}}, nil), []string{"clean"}},
		"Abandoned":    {pivot.HoldOf(abandoned, around), []string{"keep", "discard"}},
		"Leftover":     {pivot.Leftover(build.Host("host", build.Available()))[0].String(), []string{"clean"}},
		"Unpause":      {pivot.UnpauseObstacles(abandoned, around, left)[0].String(), []string{"keep", "discard"}},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(tc.message, "kubectl ") {
				t.Errorf("a command of the plugin does this: %s", tc.message)
			}
			found := quotedCommand.FindAllStringSubmatch(tc.message, -1)
			if len(found) != len(tc.commands) {
				t.Fatalf("got %v in %q", found, tc.message)
			}
			for i, each := range found {
				parseCommand(t, strings.Fields(each[1]), tc.commands[i])
			}
		})
	}
}

// parseCommand requires that the plugin has the command with all its flags.
func parseCommand(t *testing.T, words []string, want string) {
	t.Helper()
	code := 0
	root := newRoot("clusterctl metal3", Environment{Output: io.Discard, Errors: io.Discard}, &code)
	found, rest, err := root.Find(words[2:])
	if err != nil || found.Name() != want || !found.Runnable() {
		t.Fatalf("%v is %v: %v", words, found, err)
	}
	if err := found.ParseFlags(rest); err != nil || found.Flags().NArg() > 0 {
		t.Errorf("%v: %v, and %v is left", words, err, found.Flags().Args())
	}
	if namespace, err := found.Flags().GetString("namespace"); err != nil || namespace != build.DefaultNamespace {
		t.Errorf("%v is about namespace %q: %v", words, namespace, err)
	}
}
