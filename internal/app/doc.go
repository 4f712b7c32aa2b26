// Package app puts the manager together: flags, scheme, caches, controllers, webhooks, health.
//
// It decides nothing about machines or hosts. What it does decide is what the manager keeps in memory: hosts without
// their disks, Secrets of clusters without their values, nodes without their status.
package app
