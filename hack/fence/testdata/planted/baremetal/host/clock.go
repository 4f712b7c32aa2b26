package host

import clock "time"

func Age(since clock.Time) clock.Duration {
	clock.Sleep(clock.Second) // want forbidigo poll with a deadline
	_ = clock.Now()           // want forbidigo the time is an argument
	return clock.Since(since) // want forbidigo the time is an argument
}
