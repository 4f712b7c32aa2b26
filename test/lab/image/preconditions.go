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
	// overlayMagic is what the kernel calls an overlay file system.
	overlayMagic = 0x794c7630

	// roomForAll is the space, in GiB, for making everything for the first time, with a reserve.
	roomForAll = 12

	// roomForStore is the space, in GiB, for making a store when all that goes into it is there.
	roomForStore = 4

	// answerLimit is how long the mirror of Debian may take to answer.
	answerLimit = 15 * time.Second
)

// checkMachine says why this machine cannot hold a lab.
func (w workshop) checkMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("a lab makes file systems, namespaces and mounts, which needs root; run this with sudo, with " +
			"METAL3_CACHE set to keep the cache where it is")
	}
	var status syscall.Statfs_t
	if err := syscall.Statfs(w.cache, &status); err != nil {
		return fmt.Errorf("looking at the file system of %s: %w", w.cache, err)
	}
	if int64(status.Type) == overlayMagic {
		return fmt.Errorf("the cache %s is on an overlay file system, on which containerd cannot make another one; set "+
			"METAL3_CACHE to a folder on a disk or a volume", w.cache)
	}
	return nil
}

// checkRoom says whether there is as much space, in GiB, as what is going to be made needs.
func (w workshop) checkRoom(needed float64) error {
	var status syscall.Statfs_t
	if err := syscall.Statfs(w.cache, &status); err != nil {
		return fmt.Errorf("looking at the file system of %s: %w", w.cache, err)
	}
	if free := float64(status.Bavail) * float64(status.Bsize) / (1 << 30); free < needed {
		return fmt.Errorf("the cache %s has %.1f GiB of free space, and making the lab's files needs %.0f GiB; remove old "+
			"folders from it or set METAL3_CACHE to a folder on a larger disk", w.cache, free, needed)
	}
	return nil
}

// checkMirror says whether Debian's packages can be had from an address.
func checkMirror(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	release := address + "/dists/" + suite + "/Release"
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, release, nil)
	if err != nil {
		return err
	}
	const remedy = "Debian's packages are needed once; connect this machine, or set http_proxy"
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
