// Package webhooks registers admission and conversion of the nine kinds.
//
// It holds no rules: admission lives in the package named after the hub version, conversion lives beside the types.
package webhooks

import (
	"crypto/rand"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

// SetupWithManager registers all webhooks with the webhook server of the manager.
func SetupWithManager(mgr ctrl.Manager) error {
	for _, register := range []func(ctrl.Manager) error{
		kind(&infrav1.Metal3Cluster{}, v1beta2.Metal3ClusterValidator(), v1beta2.Metal3ClusterDefaulter(rand.Read)),
		kind(&infrav1.Metal3ClusterTemplate{}, v1beta2.Metal3ClusterTemplateValidator(), nil),
		kind(&infrav1.Metal3Data{}, v1beta2.Metal3DataValidator(), nil),
		kind(&infrav1.Metal3DataClaim{}, v1beta2.Metal3DataClaimValidator(), nil),
		kind(&infrav1.Metal3DataTemplate{}, v1beta2.Metal3DataTemplateValidator(), nil),
		kind(&infrav1.Metal3Machine{}, v1beta2.Metal3MachineValidator(), nil),
		kind(&infrav1.Metal3MachineTemplate{}, v1beta2.Metal3MachineTemplateValidator(), nil),
		kind(&infrav1.Metal3Remediation{}, v1beta2.Metal3RemediationValidator(),
			v1beta2.Metal3RemediationDefaulter()),
		kind(&infrav1.Metal3RemediationTemplate{}, v1beta2.Metal3RemediationTemplateValidator(),
			v1beta2.Metal3RemediationTemplateDefaulter()),
	} {
		if err := register(mgr); err != nil {
			return err
		}
	}
	return nil
}

// kind returns what registers the webhooks of one kind. A nil defaulter means that the kind has no defaults.
func kind[T client.Object](
	object T, validator admission.Validator[T], defaulter admission.Defaulter[T],
) func(ctrl.Manager) error {
	return func(mgr ctrl.Manager) error {
		known, err := apiutil.GVKForObject(object, mgr.GetScheme())
		if err != nil {
			return fmt.Errorf("looking up %T in the scheme: %w", object, err)
		}
		builder := ctrl.NewWebhookManagedBy(mgr, object).WithValidator(validator)
		if defaulter != nil {
			builder = builder.WithDefaulter(defaulter)
		}
		if converter, converts := converters()[known.Kind]; converts {
			builder = builder.WithConverter(converter)
		}
		if err := builder.Complete(); err != nil {
			return fmt.Errorf("registering the webhooks of %s: %w", known.Kind, err)
		}
		return nil
	}
}

// converters returns what converts each kind between its versions, by kind. A kind of one version needs none.
func converters() map[string]func(*runtime.Scheme) (conversion.Converter, error) {
	return map[string]func(*runtime.Scheme) (conversion.Converter, error){}
}
