package plugin_test

import (
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

// openTerminal returns the user's end of a terminal, and the program's end.
func openTerminal() (person, program *os.File) {
	GinkgoHelper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(person.Close)
	Expect(unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)).To(Succeed())
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	Expect(err).NotTo(HaveOccurred())
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(program.Close)
	return person, program
}
