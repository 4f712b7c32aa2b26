package env

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

const (
	// writers is the number of concurrent writes.
	writers = 8

	// definitionsPoll is the interval of the checks whether the API server serves new kinds.
	definitionsPoll = 50 * time.Millisecond
)

// InstallDefinitions installs groups of CRDs that were not among those of Options. It blocks until their kinds are
// served.
func (s *Server) InstallDefinitions(ctx context.Context, groups ...components.Group) error {
	definitions, err := s.source().Definitions(ctx, groups...)
	if err != nil {
		return err
	}
	return s.installDefinitions(ctx, definitions)
}

func (s *Server) installDefinitions(
	ctx context.Context, definitions []*apiextensionsv1.CustomResourceDefinition,
) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(writers)
	for _, definition := range definitions {
		if s.options.Webhooks && definition.Spec.Group == infrav1.GroupVersion.Group {
			s.Webhook.convert(definition)
		}
		// A copy, because the client stores the response in its argument.
		work.Go(func() error {
			if err := s.Client.Create(ctx, definition.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
				return fmt.Errorf("installing the definition %s: %w", definition.Name, err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	return s.waitForDefinitions(definitions)
}

// waitForDefinitions blocks until the API server serves all kinds.
func (s *Server) waitForDefinitions(definitions []*apiextensionsv1.CustomResourceDefinition) error {
	if err := envtest.WaitForCRDs(s.Config, definitions, envtest.CRDInstallOptions{
		MaxTime: startLimit, PollInterval: definitionsPoll,
	}); err != nil {
		return fmt.Errorf("waiting until the definitions are served: %w", err)
	}
	return nil
}
