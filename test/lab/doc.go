// Package lab shows the provider on real kubeadm nodes and a real Ironic, on one Linux machine.
//
// A lab is a switch (package network) with machines made of namespaces (package machine) on it, and a BMC for each of
// them (package bmc). Its first machine becomes the management cluster: kubeadm, and on top of it Ironic with
// keepalived as config/ironic has it, BMO as it is released, a stand-in for cert-manager, and what clusterctl installs,
// Cluster API, the IP address manager of Metal3 and this provider, all as Deployments that really run. The other
// machines are bare metal: they become nodes only by way of Ironic, whose driver speaks Redfish with their BMCs and
// commands an agent (package agent) that they boot from virtual media. The control plane of a cluster may take the
// address of Ironic over, see TemplateWithIronic.
//
// It refuses to touch the network of the machine that it runs on: what is outside reaches the API servers of a lab
// through ports of the loopback interface that this process serves. The lab ends with this process, however it ends;
// what a process that was killed could not remove, the next Start of that lab or Sweep removes.
//
// What runs in a lab is given time by limits that are far above what it takes on an idle machine, because machines that
// run tests are busy. Everything that fails leaves an explanation in a folder, see Options.Artefacts.
package lab
