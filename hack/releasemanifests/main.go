// Command releasemanifests writes the files of a release that clusterctl reads: the components, the metadata, the
// cluster templates, the ClusterClasses, and the manifests of Ironic with variables of clusterctl.
//
// It returns an error for a version that metadata.yaml does not list, because clusterctl would refuse the release. It
// also returns an error for components that do not name the image of the manager exactly once, and for images with a
// development tag. It deletes the folder of the version first, so that no file of an earlier run stays.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "releasemanifests:", err)
		os.Exit(1)
	}
}

func run() error {
	version := flag.String("version", "", "version of the release, such as v1.15.0")
	image := flag.String("image", defaultImage, "image of the manager, without a tag")
	guard := flag.String("guard-image", defaultGuard, "image with keepalived and its guard, without a tag")
	tag := flag.String("tag", "", "tag of both images (default: the version)")
	output := flag.String("output", filepath.Join("out", "release"), "folder that gets one folder per version")
	flag.Parse()
	if *tag == "" {
		*tag = *version
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	made := release{
		root: root, version: *version, image: *image + ":" + *tag, guard: *guard + ":" + *tag, output: *output,
	}
	written, err := made.write(ctx)
	if err != nil {
		return err
	}
	for _, path := range written {
		fmt.Println(path)
	}
	return nil
}
