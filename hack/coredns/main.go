// Command coredns is CoreDNS with the plugins that the Corefile of kubeadm uses, and no others.
//
// The released program links every plugin, and with them the clients of several clouds. This program returns an error
// for a Corefile that names another plugin.
package main

import (
	"github.com/coredns/coredns/coremain"
	// Each plugin registers itself when it is imported.
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() { coremain.Run() }
