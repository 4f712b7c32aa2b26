// Command stage sets up the machines of a lab. The lab starts it; it is of no use to people.
//
//	stage boot PLAN               starts an operating system in namespaces of its own and waits for its end
//	stage init PLAN TERMINAL      is the first process in these namespaces until it becomes the system's own
//	stage exec GROUP PID COMMAND  runs a command on a machine
//	stage guard LAB               waits for the end of its standard input, then removes everything of the lab
//
// It is a program and not a part of the lab, because a process with several threads cannot enter all kinds of
// namespaces, and because the guard has to outlive the lab. It is linked statically, because it runs where no library
// is.
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
