// Package v1beta2 admits the nine kinds of this provider: it fills in defaults and refuses what cannot work.
//
// Only the hub version is admitted. Requests in an older version reach the webhooks converted, so each rule exists
// once.
//
// What it refuses is decided by pure functions of one object; what was already wrong and is not touched never stops an
// update (rule.Findings.Without). So finalizers, labels and status stay writable under a stricter release. The
// trade-off is that an earlier mistake stays until a user edits the field.
//
// Three things are let through as they are, and leftAlone and isTopologyDryRun are the only places that know them:
//   - objects that clusterctl move is about to delete in the cluster that it moves away from,
//   - objects that are being deleted, where only finalizers matter,
//   - for what forbids changes: the dry runs of the topology controller, which compares templates that way.
//
// There are no webhooks for deletion. No kind is refused to be deleted: finalizers keep each object as long as
// something depends on it, and a refusal would stand in the way of clusterctl move.
package v1beta2
