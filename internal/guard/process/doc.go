// Package process starts the child processes of the guard, and collects dead processes.
//
// The kernel kills a child when its parent thread ends. Therefore the thread that started the child stays locked as
// long as the child lives.
//
// The guard is process 1 of its container, so it also collects orphaned processes. Package os/exec would wait for the
// same children and cannot be used. Outside of a container the package collects only its own children.
package process
