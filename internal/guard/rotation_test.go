package guard_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// TestAuthorityRotates gives a holder another certificate authority before its web server has a certificate of it.
func TestAuthorityRotates(t *testing.T) {
	t.Parallel()
	_, n := alone(t)
	next := issue(t, []net.IP{net.ParseIP(vip4.String()), net.ParseIP(vip6.String())}, time.Now().Add(time.Hour))
	checked := n.checks()
	n.write("etc/ca.crt", string(next.authority))
	eventually(t, generous, "the guard checks Ironic some more", func() string {
		if now := n.checks(); now < checked+4 {
			return fmt.Sprint(now-checked, " checks")
		}
		return ""
	})
	if failures := n.metric("probe_failures_total"); failures != "" {
		t.Fatalf("the web server still has its certificate, but the guard reports %s", failures)
	}
	eventually(t, generous, "the guard logs the change", n.logs("The certificate authority changes"))
	n.serveWith(next)
	eventually(t, generous, "the guard has seen the new certificate", n.logs("No longer: The certificate authority changes"))
	if held := heldBy(n, n)(); held != "" {
		t.Errorf("the change is over: %s", held)
	}

	n.serveWith(n.lab.issued)
	eventually(t, generous, "the previous authority does not count", noHolder(n))
	if failures := n.metric("probe_failures_total"); !strings.Contains(failures, `"CertificateWrong"`) {
		t.Errorf("the reason is %s", failures)
	}
}

// checks returns the number of checks of Ironic.
func (n *node) checks() (count int) {
	_, _ = fmt.Sscanf(n.metric("probe_duration_seconds_count"), "metal3_guard_probe_duration_seconds_count %d", &count)
	return count
}

// logs returns nothing once the guard has logged the text.
func (n *node) logs(text string) func() string {
	return func() string {
		if strings.Contains(n.said.String(), `"`+text+`"`) {
			return ""
		}
		return fmt.Sprintf("the log has no %q", text)
	}
}

// serveWith gives the stub of Ironic a certificate.
func (n *node) serveWith(issued material) {
	n.lab.t.Helper()
	pair, err := tls.X509KeyPair(issued.certificate, issued.key)
	must(n.lab.t, err)
	n.pair.Store(&pair)
}
