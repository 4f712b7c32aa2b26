package address

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

const (
	// bufferSize is larger than any message of the kernel about addresses and interfaces.
	bufferSize = 32 << 10

	// answerPatience is the timeout of an answer of the kernel, which usually answers before the request returns.
	answerPatience = 5 * time.Second
)

// strictCheck, from netlink.h of the kernel, makes the kernel apply the filter of a list request. Its level is
// solNetlink.
const (
	solNetlink  = 270
	strictCheck = 12
)

// kernel is a netlink connection. The netlink library opens a connection for each request, with a buffer of 64 KiB
// for each part of an answer. The guard sends several requests per second. Only close is safe for concurrent use.
type kernel struct {
	file   *os.File
	raw    syscall.RawConn
	buffer []byte
}

// dial opens a connection and subscribes to the events of the groups.
func dial(groups ...uint) (*kernel, error) {
	var mask uint32
	for _, group := range groups {
		mask |= 1 << (group - 1)
	}
	kind := syscall.SOCK_RAW | syscall.SOCK_CLOEXEC | syscall.SOCK_NONBLOCK
	descriptor, err := syscall.Socket(syscall.AF_NETLINK, kind, syscall.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("connecting to the kernel: %w", err)
	}
	k := &kernel{file: os.NewFile(uintptr(descriptor), "netlink"), buffer: make([]byte, bufferSize)}
	// Kernels before 4.20 have no filter. The reader skips entries that it did not request.
	_ = syscall.SetsockoptInt(descriptor, solNetlink, strictCheck, 1)
	err = syscall.Bind(descriptor, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK, Groups: mask})
	if err == nil {
		k.raw, err = k.file.SyscallConn()
	}
	if err != nil {
		k.close()
		return nil, fmt.Errorf("connecting to the kernel: %w", err)
	}
	return k, nil
}

// close ends all blocked calls.
func (k *kernel) close() {
	_ = k.file.Close()
}

// receive returns the next messages of the kernel, which are valid until the next call. It drops messages of other
// senders.
func (k *kernel) receive() ([]syscall.NetlinkMessage, error) {
	var size int
	var from syscall.Sockaddr
	var failure error
	err := k.raw.Read(func(descriptor uintptr) bool {
		size, from, failure = syscall.Recvfrom(int(descriptor), k.buffer, 0)
		return !errors.Is(failure, syscall.EAGAIN) && !errors.Is(failure, syscall.EINTR)
	})
	if err := errors.Join(err, failure); err != nil {
		return nil, err
	}
	if sender, is := from.(*syscall.SockaddrNetlink); !is || sender.Pid != nl.PidKernel {
		return nil, nil
	}
	return syscall.ParseNetlinkMessage(k.buffer[:size])
}

// send sends a request and calls the function for each part of the answer.
func (k *kernel) send(request *nl.NetlinkRequest, part func([]byte) error) error {
	if err := k.file.SetReadDeadline(time.Now().Add(answerPatience)); err != nil {
		return err
	}
	if _, err := k.file.Write(request.Serialize()); err != nil {
		return err
	}
	answer := answer{request: request.Seq, part: part}
	for !answer.complete {
		messages, err := k.receive()
		if err != nil {
			return err
		}
		for _, message := range messages {
			if err := answer.read(message); err != nil {
				return err
			}
		}
	}
	return nil
}

// answer is the state of an answer with several parts.
type answer struct {
	request               uint32
	part                  func([]byte) error
	interrupted, complete bool
}

func (a *answer) read(message syscall.NetlinkMessage) error {
	header := message.Header
	// A late answer to an abandoned request.
	if header.Seq != a.request {
		return nil
	}
	a.interrupted = a.interrupted || header.Flags&nlmDumpInterrupted != 0
	if header.Type != syscall.NLMSG_ERROR && header.Type != syscall.NLMSG_DONE {
		return a.part(message.Data)
	}
	a.complete = true
	if err := refusal(message.Data); err != nil || !a.interrupted {
		return err
	}
	return netlink.ErrDumpInterrupted
}

// nlmDumpInterrupted, from netlink.h of the kernel, marks a list that changed during the read.
const nlmDumpInterrupted = 0x10

// refusal returns the error at the end of an answer, nil if there is none.
func refusal(end []byte) error {
	if len(end) < 4 {
		return nil
	}
	//nolint:gosec // The kernel writes an error as a negative number.
	if number := int32(binary.NativeEndian.Uint32(end)); number != 0 {
		return syscall.Errno(-number)
	}
	return nil
}
