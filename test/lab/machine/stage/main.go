// Command stage sets up the machines of a lab. Only the lab starts it.
//
//	stage boot PLAN               starts an operating system in its own namespaces and waits for its end
//	stage init PLAN TERMINAL      is the first process in these namespaces until it executes the system
//	stage exec GROUP PID COMMAND  runs a command on a machine
//	stage guard LAB               waits for the end of its standard input, then removes the lab
//
// It is a separate program because a process with several threads cannot enter all kinds of namespaces, and because the
// guard must outlive the lab. It is linked statically, because it runs without libraries.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	switch {
	case len(args) == 2 && args[0] == "boot":
		return boot(args[1])
	case len(args) == 3 && args[0] == "init":
		return 1, start(args[1], args[2])
	case len(args) >= 4 && args[0] == "exec":
		return execute(args[1], args[2], args[3:])
	case len(args) == 2 && args[0] == "guard":
		return 0, guard(args[1])
	}
	return 2, errors.New("usage: stage boot PLAN | init PLAN TERMINAL | exec GROUP PID COMMAND... | guard LAB")
}
