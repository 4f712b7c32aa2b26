// Package controllers registers the controllers. Each kind has a package of its own below this one, and kinds talk
// through objects, never through calls.
package controllers
