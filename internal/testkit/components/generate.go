package components

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// crdOptions are the options of the address manager for its CRDs.
const crdOptions = "crd:allowDangerousTypes=true"

// keyLength is the length of a hash in the name of a folder of the cache.
const keyLength = 16

// generate generates the CRDs of one package of a module that the checkout requires. The cache key is the version of
// the module, the generator and its options: a second call costs one hash.
func (s Source) generate(ctx context.Context, modulePath, pkg string) ([]string, error) {
	found, err := s.required(ctx, modulePath)
	if err != nil {
		return nil, err
	}
	tools, err := binaries.Ensure(ctx, s.Root, binaries.Tools(), s.progress())
	if err != nil {
		return nil, err
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		return nil, err
	}
	// The name of the folder of the tools depends on all their pins, and the name of the folder of the module on its
	// version.
	hash := sha256.Sum256([]byte(found.Dir + "\n" + pkg + "\n" + filepath.Base(tools) + "\n" + crdOptions))
	target := filepath.Join(cache, "crds-"+hex.EncodeToString(hash[:])[:keyLength])
	if complete(target) {
		return []string{target}, nil
	}
	unlock, err := lock(target + ".lock")
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", target, err)
	}
	defer unlock()
	if complete(target) {
		return []string{target}, nil
	}
	fmt.Fprintf(s.progress(), "generating the custom resource definitions of %s/%s\n", modulePath, pkg)
	return []string{target}, s.runGenerator(ctx, filepath.Join(tools, "controller-gen"), modulePath+"/"+pkg, target)
}

// runGenerator writes into a temporary folder first, so that an interrupted run never counts as complete.
func (s Source) runGenerator(ctx context.Context, generator, pkg, target string) error {
	partial, err := os.MkdirTemp(filepath.Dir(target), "crds-partial-")
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, generator, crdOptions, "paths="+pkg, "output:crd:dir="+partial)
	command.Dir = s.Root
	output, err := command.CombinedOutput()
	if err == nil {
		err = os.Rename(partial, target)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("generating the custom resource definitions of %s: %w\n%s", pkg, err, output),
			os.RemoveAll(partial))
	}
	return nil
}

func complete(folder string) bool {
	_, err := os.Stat(folder)
	return err == nil
}

// lock blocks until another caller has finished generating.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}
