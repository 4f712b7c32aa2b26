// Package process starts the programs that the guard answers for, and collects what has died.
//
// A child shares the fate of its parent: the kernel sends it SIGTERM when the parent is gone, however the parent went.
// The kernel means the thread that started the child, so that thread is kept for as long as the child lives.
//
// The guard is process 1 of its container, so it also collects processes that others left behind. The package os/exec
// cannot be used beside that: both would wait for the same children. Outside of a container the package
// collects its own children only, because other processes have other parents.
package process
