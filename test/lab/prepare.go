package lab

import (
	"context"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/endpoint"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/image"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

// Prepare builds missing files that all labs and tests of Ironic share. Start builds those of labs too.
func Prepare(ctx context.Context, progress Progress) error {
	checkout, err := binaries.Root()
	if err != nil {
		return err
	}
	prepared := &Lab{options: Options{Progress: progress}, checkout: checkout}
	if err := prepared.prepare(ctx); err != nil {
		return err
	}
	output := &lines{progress: progress}
	// Tests also start Ironic without a container.
	if _, _, err := ironic.EnsureRoot(ctx, output); err != nil {
		return err
	}
	// They change with the checkout and are packed for each lab. This call compiles them.
	_, err = endpointImages(ctx, checkout, output)
	return err
}

// prepare builds the shared files of all labs. It compiles programs while it installs Debian, which mostly waits for
// packages.
func (l *Lab) prepare(ctx context.Context) error {
	output := &lines{progress: l.options.Progress}
	var packed image.Image
	parts, shared := errgroup.WithContext(ctx)
	parts.Go(func() (err error) {
		if packed, err = endpoint.IronicImage(shared, output); err != nil {
			return err
		}
		_, err = image.EnsureDebian(shared, output)
		return err
	})
	parts.Go(func() error { return l.compile(shared, output) })
	err := parts.Wait()
	if err != nil {
		return err
	}
	l.ironicImage = packed.Names[0]
	if l.artefacts, err = image.Ensure(ctx, l.checkout, output, packed); err != nil || !l.options.EarlierKubernetes {
		return err
	}
	l.earlier, err = l.artefacts.Earlier(ctx)
	return err
}

// compile makes the released programs that run in a lab.
func (l *Lab) compile(ctx context.Context, output io.Writer) error {
	for _, set := range []binaries.Set{
		binaries.Nodes(), binaries.ControlPlane(), binaries.ClusterAPI(), binaries.CertManager(), binaries.CoreDNS(),
		binaries.BaremetalOperator(), binaries.AddressManager(),
	} {
		if _, err := binaries.Ensure(ctx, l.checkout, set, output); err != nil {
			return err
		}
	}
	return nil
}
