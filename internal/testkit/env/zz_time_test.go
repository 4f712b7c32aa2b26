package env_test
import ("testing";"time"
"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)
func TestZZ(t *testing.T) {
	for _, o := range []env.Options{{Definitions: []components.Group{}},{Definitions: []components.Group{components.Provider, components.HostOperator}},{}, {ControllerManager: true, Audit: true}, {Webhooks: true}} {
		for range 2 {
		b := time.Now()
		s, err := env.Start(t.Context(), o)
		if err != nil { t.Fatal(err) }
		d := time.Since(b); b = time.Now()
		s.Stop()
		t.Logf("%+v: start %s stop %s", o.Definitions, d.Round(time.Millisecond), time.Since(b).Round(time.Millisecond))
		}
	}
}
