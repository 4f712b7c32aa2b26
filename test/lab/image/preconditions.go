package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"
)

const (
	// overlayMagic is the magic number of an overlay file system.
	overlayMagic = 0x794c7630

	// roomForAll is the space in GiB for all first builds, with a reserve.
	roomForAll = 12

	// roomForStore is the space in GiB for a store, if its inputs exist.
	roomForStore = 4

	// answerLimit is the time limit for a response of the mirror of Debian.
	answerLimit = 15 * time.Second
)

// checkMachine returns an error if this machine cannot run a lab.
func (w workshop) checkMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("a lab requires root for file systems, namespaces and mounts: run this with sudo, with " +
			"METAL3_CACHE set to keep the cache where it is")
	}
	var status syscall.Statfs_t
	if err := syscall.Statfs(w.cache, &status); err != nil {
		return fmt.Errorf("reading the file system of %s: %w", w.cache, err)
	}
	if int64(status.Type) == overlayMagic {
		return fmt.Errorf("the cache %s is on an overlay file system, on which containerd cannot mount another one: set "+
			"METAL3_CACHE to a folder on a disk or a volume", w.cache)
	}
	return nil
}

// checkRoom returns an error if the cache has less free space, in GiB, than a build requires.
func (w workshop) checkRoom(needed float64) error {
	var status syscall.Statfs_t
	if err := syscall.Statfs(w.cache, &status); err != nil {
		return fmt.Errorf("reading the file system of %s: %w", w.cache, err)
	}
	if free := float64(status.Bavail) * float64(status.Bsize) / (1 << 30); free < needed {
		return fmt.Errorf("the cache %s has %.1f GiB of free space, but the files of the lab require %.0f GiB: remove old "+
			"folders from it or set METAL3_CACHE to a folder on a larger disk", w.cache, free, needed)
	}
	return nil
}

// checkMirror returns an error if Debian packages cannot be downloaded from an address.
func checkMirror(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	release := address + "/dists/" + suite + "/Release"
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, release, nil)
	if err != nil {
		return err
	}
	const remedy = "Debian packages are required once: connect this machine, or set http_proxy"
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("reaching %s: %w. %s", release, err, remedy)
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %q. %s", release, response.Status, remedy)
	}
	return nil
}
