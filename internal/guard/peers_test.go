package guard_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// TestPeersOfTheNode adds a node to a group in unicast mode. The older node does not have it in its settings, but in
// the annotation of its Node object.
func TestPeersOfTheNode(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	older, absent, newer := l.addNode("a"), l.addNode("b"), l.addNode("c")
	older.configure(vip.ControlPlane, older, absent)
	newer.configure(vip.ControlPlane, older, absent, newer)
	for _, n := range []*node{older, newer} {
		n.startAPIServer()
		n.startIronic()
		n.annotate("true")
	}
	older.start()
	eventually(t, patient, "the older node claims the VIP", heldBy(older, older, newer))
	older.annotateAll(map[string]string{annotated: "true", vip.PeersAnnotation: "not an address"})
	eventually(t, generous, "an invalid address is reported",
		older.logs("Cannot use the annotation "+vip.PeersAnnotation+" of the Node"))
	older.addPeer(newer)
	for _, address := range []netip.Addr{newer.address4, newer.address6} {
		eventually(t, generous, "keepalived of the older node has the new peer", func() string {
			content, err := os.ReadFile(older.path("run", "keepalived", "keepalived.conf"))
			if err != nil || !strings.Contains(string(content), "        "+address.String()+" min_ttl") {
				return fmt.Sprintf("%v: %s", err, content)
			}
			return ""
		})
	}
	newer.start()
	eventually(t, generous, "the new node takes part", newer.ready)
	throughout(t, 4*time.Second, "the older node is heard", heldBy(older, older, newer))
}

// TestNodeOutsideThePeers starts a node that its peers would ignore. It takes part once its Node has its addresses.
func TestNodeOutsideThePeers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	member, absent, outside := l.addNode("a"), l.addNode("b"), l.addNode("c")
	member.configure(vip.ControlPlane, member, absent, outside)
	outside.configure(vip.ControlPlane, member, absent)
	for _, n := range []*node{member, outside} {
		n.startAPIServer()
		n.startIronic()
		n.annotate("true")
		n.start()
	}
	eventually(t, patient, "the member claims the VIP", heldBy(member, member, outside))
	eventually(t, generous, "the readiness probe says why the other node refuses", func() string {
		code, body := outside.get("/readyz")
		wanted := fmt.Sprintf("address %s of the node is not in spec.ironic.vrrp.peers", outside.address4)
		if code != http.StatusServiceUnavailable || !strings.Contains(body, wanted) {
			return fmt.Sprint(code, " ", body)
		}
		return ""
	})
	member.signal(syscall.SIGTERM)
	eventually(t, generous, "the member gives the VIP up", noHolder(member))
	throughout(t, 4*time.Second, "the other node does not claim it", noHolder(member, outside))
	outside.addPeer(outside)
	eventually(t, generous, "it takes part", outside.ready)
	eventually(t, patient, "it claims the VIP", heldBy(outside, member, outside))
}

// addPeer annotates the Node with the addresses of a peer. The Node stays armed.
func (n *node) addPeer(peer *node) {
	n.annotateAll(map[string]string{
		annotated: "true", vip.PeersAnnotation: peer.address4.String() + ", " + peer.address6.String(),
	})
}

func (n *node) annotateAll(annotations map[string]string) {
	n.annotation.Store(&annotations)
}
