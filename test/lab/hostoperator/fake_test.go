package hostoperator_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/fakeironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/ironicapi"
)

// fakeImage is an image that the Ironic in memory takes for granted.
const fakeImage = "http://images.example/node.img"

// fakeBackend is an Ironic in memory, which plays the machines as well.
type fakeBackend struct{ server *fakeironic.Server }

func (b *fakeBackend) start() {
	b.server = fakeironic.New()
	b.server.Work = 50 * time.Millisecond
	b.breakBy(fakeironic.Faults{})
	DeferCleanup(b.server.Close)
}

// breakBy changes what goes wrong, and keeps what is so in every story.
func (b *fakeBackend) breakBy(faults fakeironic.Faults) {
	faults.Password, faults.MissingImage = goodPassword, fakeImage+".missing"
	b.server.Break(faults)
}

func (b *fakeBackend) settings() ironicapi.Settings {
	return ironicapi.Settings{
		Endpoint: b.server.Endpoint(), Username: b.server.Username, Password: b.server.Password,
	}
}

func (b *fakeBackend) lose(context.Context) { b.breakBy(fakeironic.Faults{Down: true}) }

func (b *fakeBackend) replace(context.Context) {
	b.server.Empty()
	b.breakBy(fakeironic.Faults{})
}

func (b *fakeBackend) address(machine string) string { return "http://bmc.example/machines/" + machine }

func (b *fakeBackend) image() *bmov1alpha1.Image {
	return &bmov1alpha1.Image{URL: fakeImage, Checksum: fakeImage + ".sha256sum", ChecksumType: bmov1alpha1.SHA256}
}

// calls are those about the node of a machine.
func (b *fakeBackend) calls(machine string) []fakeironic.Call {
	namespace, host, _ := cutLast(machine, "-")
	return slices.DeleteFunc(b.server.Calls(), func(call fakeironic.Call) bool {
		return call.Node != namespace+"~"+host
	})
}

// cutLast cuts around the last separator. Namespaces of stories hold none after the first.
func cutLast(text, separator string) (before, after string, found bool) {
	index := strings.LastIndex(text, separator)
	if index < 0 {
		return text, "", false
	}
	return text[:index], text[index+len(separator):], true
}

// commands are the calls that make Ironic do something to a machine.
func (b *fakeBackend) commands(machine string) []string {
	commands := []string{}
	for _, call := range b.calls(machine) {
		switch call.What {
		case "enroll", "port", "update", "manage", "adopt", "inspect", "maintenance", "no maintenance", "remove":
		default:
			commands = append(commands, call.What)
		}
	}
	return commands
}

func (b *fakeBackend) powered(machine string) bool { return b.server.Powered(b.address(machine)) }

func (b *fakeBackend) drive(machine string) string {
	GinkgoHelper()
	calls := b.calls(machine)
	slices.Reverse(calls)
	for _, call := range calls {
		if call.What != "active" {
			continue
		}
		drive, isObject := call.Body["configdrive"].(map[string]any)
		Expect(isObject).To(BeTrue(), "config drive %v", call.Body)
		text, isText := drive["user_data"].(string)
		Expect(isText).To(BeTrue(), "user data %v", drive)
		rest, err := json.Marshal(drive)
		Expect(err).NotTo(HaveOccurred())
		return text + string(rest)
	}
	return ""
}
