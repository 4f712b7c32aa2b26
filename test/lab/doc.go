// Package lab runs the provider on real kubeadm nodes and a real Ironic, on one Linux machine.
//
// A lab is a switch (package network) with machines made of namespaces (package machine), and a BMC for each of them
// (package bmc). The first machine becomes the management cluster: kubeadm, Ironic with keepalived from config/ironic,
// the released BMO and cert-manager, Cluster API, the IP address manager of Metal3 and this provider, all as
// running Deployments. The other machines are bare metal: only Ironic makes nodes of them. Its driver uses Redfish
// with their BMCs and commands an agent (package agent), which they boot from virtual media. The control plane of a
// cluster may claim the VIP of Ironic: see TemplateWithIronic.
//
// A lab does not change the network of its machine: the API servers of a lab are reached through ports of the loopback
// interface that this process serves. The lab ends with this process. The next Start of that lab or Sweep removes the
// leftovers of a killed process.
//
// Time limits are far above the duration on an idle machine, because machines that run tests are busy. A failure leaves
// artefacts in a folder: see Options.Artefacts.
package lab
