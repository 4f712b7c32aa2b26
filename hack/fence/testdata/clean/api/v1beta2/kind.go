package v1beta2

import (
	_ "context"

	_ "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "sigs.k8s.io/cluster-api/api/core/v1beta2"
)
