// Package metal3machinetemplate reconciles Metal3MachineTemplates: it carries a changed automatedCleaningMode to the
// machines made from the template, and reports what its hosts offer, so that the cluster autoscaler can scale from
// zero.
//
// It refuses to carry any other field: a machine does not change under its node.
package metal3machinetemplate
