package staticpod

import (
	_ "k8s.io/api/core/v1"
	_ "sigs.k8s.io/yaml"
)
