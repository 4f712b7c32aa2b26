package v1beta2_test

import (
	"testing"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func TestMetal3ClusterTemplate(t *testing.T) {
	template := func(changes ...func(*infrav1.Metal3Cluster)) *infrav1.Metal3ClusterTemplate {
		template := &infrav1.Metal3ClusterTemplate{ObjectMeta: named("class")}
		template.Spec.Template.Spec = altered(validCluster, changes...).Spec
		return template
	}
	const fixedID = `spec.template.spec.ironic.clusterID: Invalid value: "3f9c1a7e": would be the same for all ` +
		"clusters; omit it, so that each gets its own"
	judge(t, v1beta2.Metal3ClusterTemplateValidator(), map[string]step[*infrav1.Metal3ClusterTemplate]{
		"valid":       {reason: "as a cluster", after: template()},
		"no endpoint": {reason: "each cluster has its own", after: template(endpoint("", 0))},
		"no port":     {reason: "the default is set in each cluster", after: template(endpoint("192.0.2.10", 0))},
		"port without host": {
			reason: "the rules of a cluster apply",
			after:  template(endpoint("", 6443)),
			want: []string{"spec.template.spec.controlPlaneEndpoint.host: Required value: port 6443 is set without a " +
				"host; set the host, or leave out controlPlaneEndpoint to use the endpoint of the Cluster"},
		},
		"ironic":          {reason: "without identity", after: template(ironic(clusterID("")))},
		"ironic identity": {reason: "clusters need different ones", after: template(ironic()), want: []string{fixedID}},
		"identity that was there": {
			reason: "an update without this change passes",
			before: template(ironic()), after: template(ironic(), endpoint("", 0)),
		},
		"rebase": {
			reason: "a template of a ClusterClass may change freely",
			before: template(provisioned), after: template(endpoint("192.0.2.11", 443), ironic(clusterID(""))),
		},
		"old one was invalid": {
			reason: "a correction is allowed",
			before: template(endpoint("", 6443)), after: template(),
		},
	})
}
