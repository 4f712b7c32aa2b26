package plugin

import (
	"context"
	"encoding/json"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// hostFields are the fields of the definition of hosts. Nil if there is no definition.
func (s *scope) hostFields() (*pivot.FieldSchema, error) {
	for _, known := range s.definitions {
		if known.Name != pivot.HostDefinition || known.schema == nil {
			continue
		}
		content, err := json.Marshal(known.schema)
		fields := &pivot.FieldSchema{}
		if err == nil {
			err = json.Unmarshal(content, fields)
		}
		if err != nil {
			return nil, fmt.Errorf("parsing the schema of CustomResourceDefinition %s: %w", known.Name, err)
		}
		return fields, nil
	}
	return nil, nil
}

// compareFields finds the fields that hosts of a source use and that the definition of the target lacks. The types of
// BMO here may lack these fields too, so it reads the hosts as they are. It reads none if the target lacks no field.
func (c *cluster) compareFields(ctx context.Context, source, target *scope) error {
	here, err := source.hostFields()
	if err != nil {
		return err
	}
	there, err := target.hostFields()
	if err != nil || here == nil || there == nil || there.Covers(*here) {
		return err
	}
	var hosts []map[string]any
	for more := ""; ; {
		page := unstructured.UnstructuredList{}
		page.SetGroupVersionKind(bmov1alpha1.GroupVersion.WithKind("BareMetalHostList"))
		if err := c.client.List(ctx, &page, client.InNamespace(source.namespace), client.Limit(hostPage),
			client.Continue(more)); err != nil {
			return c.blind(fmt.Errorf("listing BareMetalHosts: %w", err))
		}
		for i := range page.Items {
			hosts = append(hosts, page.Items[i].Object)
		}
		if more = page.GetContinue(); more == "" {
			break
		}
	}
	target.fieldObstacles, err = pivot.MissingFields(*there, hosts)
	return err
}
