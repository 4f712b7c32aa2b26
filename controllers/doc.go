// Package controllers registers the controllers. Each kind has its own package below this one. Kinds communicate
// through objects, never through calls.
package controllers
