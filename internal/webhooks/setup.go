// Package webhooks registers admission and conversion of the nine kinds, and the webhook for BareMetalHosts. Package
// v1beta2 has the admission, the API packages have the conversion. A kind without conversion does not compile here:
// objects that cannot be converted would stop garbage collection and the deletion of namespaces.
package webhooks

import (
	"crypto/rand"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	infrav1beta1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/wire"
)

// SetupWithManager registers all webhooks with the webhook server of the manager. The scheme must have both versions.
func SetupWithManager(mgr ctrl.Manager) error {
	registerConversion(mgr)
	for _, register := range []func(ctrl.Manager) error{
		kind(&infrav1.Metal3Cluster{}, conversion.NewSpokeConverter(&infrav1beta1.Metal3Cluster{},
			infrav1beta1.ConvertMetal3ClusterFromHub, infrav1beta1.ConvertMetal3ClusterToHub),
			v1beta2.WithArrivals(v1beta2.Metal3ClusterValidator(), mgr.GetAPIReader()),
			v1beta2.Metal3ClusterDefaulter(rand.Read)),
		kind(&infrav1.Metal3ClusterTemplate{}, conversion.NewSpokeConverter(&infrav1beta1.Metal3ClusterTemplate{},
			infrav1beta1.ConvertMetal3ClusterTemplateFromHub, infrav1beta1.ConvertMetal3ClusterTemplateToHub),
			v1beta2.Metal3ClusterTemplateValidator(), nil),
		kind(&infrav1.Metal3Data{}, conversion.NewSpokeConverter(&infrav1beta1.Metal3Data{},
			infrav1beta1.ConvertMetal3DataFromHub, infrav1beta1.ConvertMetal3DataToHub),
			v1beta2.Metal3DataValidator(), nil),
		kind(&infrav1.Metal3DataClaim{}, conversion.NewSpokeConverter(&infrav1beta1.Metal3DataClaim{},
			infrav1beta1.ConvertMetal3DataClaimFromHub, infrav1beta1.ConvertMetal3DataClaimToHub),
			v1beta2.Metal3DataClaimValidator(), nil),
		kind(&infrav1.Metal3DataTemplate{}, conversion.NewSpokeConverter(&infrav1beta1.Metal3DataTemplate{},
			infrav1beta1.ConvertMetal3DataTemplateFromHub, infrav1beta1.ConvertMetal3DataTemplateToHub),
			v1beta2.Metal3DataTemplateValidator(), nil),
		kind(&infrav1.Metal3Machine{}, conversion.NewSpokeConverter(&infrav1beta1.Metal3Machine{},
			infrav1beta1.ConvertMetal3MachineFromHub, infrav1beta1.ConvertMetal3MachineToHub),
			v1beta2.Metal3MachineValidator(), nil),
		kind(&infrav1.Metal3MachineTemplate{}, conversion.NewSpokeConverter(&infrav1beta1.Metal3MachineTemplate{},
			infrav1beta1.ConvertMetal3MachineTemplateFromHub, infrav1beta1.ConvertMetal3MachineTemplateToHub),
			v1beta2.Metal3MachineTemplateValidator(), nil),
		kind(&infrav1.Metal3Remediation{}, conversion.NewSpokeConverter(&infrav1beta1.Metal3Remediation{},
			infrav1beta1.ConvertMetal3RemediationFromHub, infrav1beta1.ConvertMetal3RemediationToHub),
			v1beta2.Metal3RemediationValidator(), v1beta2.Metal3RemediationDefaulter()),
		kind(&infrav1.Metal3RemediationTemplate{}, conversion.NewSpokeConverter(&infrav1beta1.Metal3RemediationTemplate{},
			infrav1beta1.ConvertMetal3RemediationTemplateFromHub, infrav1beta1.ConvertMetal3RemediationTemplateToHub),
			v1beta2.Metal3RemediationTemplateValidator(), v1beta2.Metal3RemediationTemplateDefaulter()),
	} {
		if err := register(mgr); err != nil {
			return err
		}
	}
	host.SetupWithManager(mgr)
	return nil
}

// registerConversion registers the handler that controller-runtime would register. The API server converts each version
// of an object for its caches, sends managedFields, and ignores those of the answer.
func registerConversion(mgr ctrl.Manager) {
	handler := conversion.NewWebhookHandler(mgr.GetScheme(), mgr.GetConverterRegistry())
	mgr.GetWebhookServer().Register("/convert", wire.Tree{"request": {"objects": wire.ManagedFields()}}.Requests(handler))
}

// kind returns a function that registers the webhooks of one kind. A nil defaulter means no defaults.
func kind[T client.Object](
	hub T, spoke conversion.SpokeConverter[T], validator admission.Validator[T], defaulter admission.Defaulter[T],
) func(ctrl.Manager) error {
	return func(mgr ctrl.Manager) error {
		builder := ctrl.NewWebhookManagedBy(mgr, hub).
			WithConverter(conversion.NewHubSpokeConverter(hub, spoke)).
			WithValidator(validator)
		if defaulter != nil {
			builder = builder.WithDefaulter(defaulter)
		}
		if err := builder.Complete(); err != nil {
			return fmt.Errorf("registering the webhooks of %T: %w", hub, err)
		}
		return nil
	}
}
