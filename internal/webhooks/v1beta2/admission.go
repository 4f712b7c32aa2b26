package v1beta2

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/topology"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// isTopologyDryRun returns true for a dry run of the topology controller.
func isTopologyDryRun(ctx context.Context, object client.Object) bool {
	request, err := admission.RequestFromContext(ctx)
	return err == nil && topology.IsDryRunRequest(request, object)
}

// defaulter sets the defaults of one kind.
type defaulter[T client.Object] struct {
	fill func(ctx context.Context, object T) error
}

// Default implements admission.Defaulter.
func (d defaulter[T]) Default(ctx context.Context, object T) error {
	if infrav1.IsGoing(object) {
		return nil
	}
	return d.fill(ctx, object)
}

// validator validates one kind.
type validator[T client.Object] struct {
	kind string

	// state validates an object.
	state func(object T) rule.Findings

	// change validates an update. Nil allows every update.
	change func(before, after T) rule.Findings
}

// ValidateCreate implements admission.Validator.
func (v validator[T]) ValidateCreate(_ context.Context, object T) (admission.Warnings, error) {
	if infrav1.IsGoing(object) {
		return nil, nil
	}
	return v.answer(object, v.state(object))
}

// ValidateUpdate implements admission.Validator.
func (v validator[T]) ValidateUpdate(ctx context.Context, before, after T) (admission.Warnings, error) {
	if infrav1.IsGoing(after) {
		return nil, nil
	}
	findings := v.state(after).Without(v.state(before))
	if v.change != nil && !isTopologyDryRun(ctx, after) {
		findings = rule.Join(findings, v.change(before, after))
	}
	return v.answer(after, findings)
}

// ValidateDelete implements admission.Validator. It is not registered for any kind.
func (v validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

func (v validator[T]) answer(object T, findings rule.Findings) (admission.Warnings, error) {
	if len(findings.Errors) == 0 {
		return findings.Warnings, nil
	}
	kind := infrav1.GroupVersion.WithKind(v.kind).GroupKind()
	return findings.Warnings, apierrors.NewInvalid(kind, object.GetName(), findings.Errors)
}
