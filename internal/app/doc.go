// Package app sets up the manager: flags, scheme, caches, controllers, webhooks and health checks. To save memory, the
// caches hold hosts without their disks, Secrets of clusters without their values, and nodes without their status.
package app
