// Command repository writes a clusterctl repository to a folder: Cluster API, the CRDs of cert-manager, a release of
// this provider and, optionally, the IP address manager. clusterctl requires no network with it.
//
// It prints the path of the clusterctl.yaml that it wrote.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/pflag"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "repository:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var repository components.Repository
	flags := pflag.NewFlagSet("repository", pflag.ContinueOnError)
	flags.StringVar(&repository.Folder, "folder", "", "Folder to write the repository to. Required.")
	flags.StringVar(&repository.Release, "release", "",
		"Folder of a release of this provider, named after its version, written by make release-manifests to "+
			"out/release/<version>. Empty omits the provider.")
	flags.BoolVar(&repository.AddressManager, "address-manager", false, "Add the IP address manager.")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if repository.Folder == "" {
		return errors.New("--folder is empty; name the folder to write to")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	path, err := components.Source{Root: root, Progress: os.Stderr}.WriteRepository(ctx, repository)
	if err != nil {
		return err
	}
	fmt.Println(path)
	return nil
}
