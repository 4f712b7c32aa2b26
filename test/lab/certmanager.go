package lab

import (
	"context"
	_ "embed"
	"errors"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

const (
	certManagerImage     = "lab.invalid/cert-manager:lab"
	certManagerProgram   = "/cert-manager"
	certManagerNamespace = "cert-manager"
	certManagerWebhook   = "cert-manager-webhook"
)

//go:embed certmanager.yaml
var certManagerManifests []byte

// installCertManager installs the CRDs of cert-manager and BMO, and cert-manager. It blocks until the API server trusts
// the webhook of cert-manager, because the next steps create certificates. clusterctl finds cert-manager, and does not
// change it, because it has none of its labels.
func (l *Lab) installCertManager(ctx context.Context, cluster *Cluster) error {
	definitions, err := l.source().Definitions(ctx, components.CertManager, components.BaremetalOperator)
	if err != nil {
		return err
	}
	if err := l.installDefinitions(ctx, cluster, definitions); err != nil {
		return err
	}
	objects, err := yaml.ToUnstructured(certManagerManifests)
	if err != nil {
		return err
	}
	for i := range objects {
		if err := create(ctx, cluster.Client, &objects[i]); err != nil {
			return err
		}
	}
	if err := l.WaitForDeployments(ctx, cluster, client.InNamespace(certManagerNamespace)); err != nil {
		return err
	}
	what := "cluster " + cluster.Name + " trusts the webhook of cert-manager"
	return l.options.Progress.WaitFor(ctx, what, deploymentsLimit, func(ctx context.Context) error {
		var found admissionregistrationv1.ValidatingWebhookConfiguration
		if err := cluster.Client.Get(ctx, client.ObjectKey{Name: certManagerWebhook}, &found); err != nil {
			return err
		}
		if len(found.Webhooks[0].ClientConfig.CABundle) == 0 {
			return errors.New("it has no CA bundle")
		}
		return nil
	})
}
