package metal3cluster

import (
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestSecretsExpire(t *testing.T) {
	cases := map[string]struct {
		reason  string
		secrets int
		missing bool
		lasts   time.Duration
		want    time.Duration
	}{
		"Complete":    {"nothing is expected to change", 1000, false, 0, secretsEvery},
		"MissingOne":  {"the missing Secret may be created at any time", 0, true, 0, blockedInterval},
		"MissingMany": {"a read costs more where there are more Secrets", 1000, true, 0, 10 * time.Second},
		"MissingMost": {"a missing Secret is noticed before any other change", 1000000, true, 0, maxBlockedInterval},
		"MissingLong": {"it was not created in this time", 1000, true, time.Minute, time.Minute},
		"MissingEver": {"it will probably stay so", 0, true, time.Hour, maxBlockedInterval},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &scope{move: pivot.MoveFacts{Secrets: make(map[string]*metav1.PartialObjectMetadata, tc.secrets)}}
			s.secretRead.at = time.Unix(1_700_000_000, 0)
			if tc.lasts > 0 {
				s.secretRead.blockedSince = s.secretRead.at.Add(-tc.lasts)
			}
			for i := range tc.secrets {
				s.move.Secrets[time.Duration(i).String()] = &metav1.PartialObjectMetadata{}
			}
			if tc.missing {
				s.move.Hosts = []*bmov1alpha1.BareMetalHost{build.Host("host")}
			}
			s.secretsBlocked = s.secretsBlock()
			if got := s.secretsExpire(); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}
