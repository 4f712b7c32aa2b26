// Package metal3machinetemplate reconciles Metal3MachineTemplates: it copies a changed automatedCleaningMode to the
// machines of the template, and reports the capacity of its hosts. The cluster autoscaler uses the capacity to scale
// from zero.
//
// It copies no other field, because the other fields of a machine are immutable.
package metal3machinetemplate
