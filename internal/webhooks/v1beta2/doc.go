// Package v1beta2 has the admission of the nine kinds of this provider: defaults and validation.
//
// The webhooks handle the hub version only. The API server converts requests in an older version, so each rule exists
// once.
//
// Validation is a pure function of one object. Errors that existed before an update do not refuse it
// (rule.Findings.Without), so finalizers, labels and status stay writable in a release with stricter rules. An earlier
// error stays until a user edits the field.
//
// The webhooks admit three kinds of requests without validation. Only infrav1.IsGoing and isTopologyDryRun detect them:
//   - objects that clusterctl move is about to delete in the source,
//   - objects that are being deleted, where only finalizers matter,
//   - for changes: dry runs of the topology controller, which compares templates.
//
// There are no webhooks for deletions: finalizers keep an object while others depend on it, and a refusal would stop
// clusterctl move.
package v1beta2
