package rhythm_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/rhythm"
)

// TestUntil starts rounds at different times, which meet after their first wait and go on together.
func TestUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const beat = 200 * time.Millisecond
		common, began := rhythm.New(beat), time.Now()
		for _, late := range []time.Duration{0, time.Millisecond, 150 * time.Millisecond, 199 * time.Millisecond} {
			for _, interval := range []time.Duration{beat, 3 * beat, 5 * beat} {
				<-time.After(10*beat - time.Since(began)%beat + late)
				start := time.Now()
				wait := common.Until(start.Add(interval))
				if wait > interval || wait <= interval-beat {
					t.Errorf("%s late the wait for %s is %s", late, interval, wait)
				}
				<-time.After(wait)
				if rest := time.Since(began) % beat; rest != 0 {
					t.Errorf("%s late the wait for %s ends %s off the rhythm", late, interval, rest)
				}
				if again := common.After(interval); again != interval {
					t.Errorf("the next wait for %s is %s", interval, again)
				}
			}
		}
		if wait := common.Until(time.Now().Add(-5 * time.Second)); wait > 0 {
			t.Errorf("the wait for a time that is over is %s", wait)
		}
	})
}
