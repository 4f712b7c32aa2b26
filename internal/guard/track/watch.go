package track

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// watched are the changes of a directory, and of the files in it, that Watch tells of.
const watched = syscall.IN_CREATE | syscall.IN_DELETE | syscall.IN_MODIFY | syscall.IN_MOVED_FROM |
	syscall.IN_MOVED_TO | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF

// Watch calls the function at once, and as soon as something changes in one of the directories, until the context ends.
// The function may be called when nothing has changed, and once for several changes.
//
// It returns an error when it cannot tell any longer: a directory is missing or is another one by now, or the kernel
// keeps no more watches for this user. Whoever asked has to look for himself then.
func Watch(ctx context.Context, changed func(), directories ...string) error {
	descriptor, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watching directories: %w", err)
	}
	file := os.NewFile(uintptr(descriptor), "inotify")
	defer func() { _ = file.Close() }()
	for _, directory := range directories {
		if _, err := syscall.InotifyAddWatch(descriptor, directory, watched|syscall.IN_ONLYDIR); err != nil {
			return fmt.Errorf("watching %s: %w", directory, err)
		}
	}
	defer context.AfterFunc(ctx, func() { _ = file.Close() })()
	buffer := make([]byte, 4<<10)
	changed()
	for {
		size, err := file.Read(buffer)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watching directories: %w", err)
		}
		changed()
		if endsWatch(buffer[:size]) {
			return errors.New("watching directories: one of them is not there any more")
		}
	}
}

// endsWatch says whether one of the events is the last one of its directory.
func endsWatch(events []byte) bool {
	const last = syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF | syscall.IN_UNMOUNT | syscall.IN_IGNORED
	for len(events) >= syscall.SizeofInotifyEvent {
		if binary.NativeEndian.Uint32(events[4:])&last != 0 {
			return true
		}
		name := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(syscall.SizeofInotifyEvent+name, len(events)):]
	}
	return false
}
