// Package upgrade replaces CAPM3 with the manager of this provider, and this manager with CAPM3 again, on a real API
// server with the real garbage collector.
//
// The objects are written as CAPM3 v1.14 leaves them. The environment variable CAPM3_MANAGER names a manager of CAPM3.
// With it, CAPM3 itself runs on the objects before and after this provider. Without it, the tests compare what CAPM3
// reads.
package upgrade
