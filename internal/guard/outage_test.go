package guard_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// sample is one request of a client to Ironic at the VIP.
type sample struct {
	at, ended time.Time
	node      string
}

// meter continuously sends requests to Ironic at the VIP.
type meter struct {
	stop func()

	mutex   sync.Mutex
	samples []sample
}

// watch starts a meter on a machine of its own, which runs until the test ends or it is stopped. A short timeout
// detects the end of an outage sooner. A long one does not count a slow node as unavailable.
func (l *lab) watch(tb testing.TB, patience time.Duration) *meter {
	tb.Helper()
	client := l.addNode("meter").client()
	client.Timeout = patience
	m := &meter{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(25 * time.Millisecond)
		defer ticks.Stop()
		for {
			began := time.Now()
			name := answering(client, vip4)
			m.mutex.Lock()
			m.samples = append(m.samples, sample{began, time.Now(), name})
			m.mutex.Unlock()
			select {
			case <-stop:
				return
			case <-ticks.C:
			}
		}
	}()
	m.stop = sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
	tb.Cleanup(m.stop)
	return m
}

// answering names the node whose Ironic answers at the VIP. Empty if none answers.
func answering(client *http.Client, address netip.Addr) string {
	page := "https://" + netip.AddrPortFrom(address, 6385).String() + "/v1/drivers"
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, page, http.NoBody)
	if err != nil {
		return ""
	}
	request.SetBasicAuth("ironic", "secret")
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Drivers []struct {
			Hosts []string `json:"hosts"`
		} `json:"drivers"`
	}
	if json.NewDecoder(response.Body).Decode(&answer) != nil || len(answer.Drivers) == 0 {
		return ""
	}
	return strings.TrimPrefix(answer.Drivers[0].Hosts[0], clusterID+"-")
}

// now names the node that answered last.
func (m *meter) now() string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if len(m.samples) == 0 {
		return ""
	}
	return m.samples[len(m.samples)-1].node
}

// outage returns the longest time between two answers since a time.
func (m *meter) outage(since time.Time) time.Duration {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	longest, good := time.Duration(0), since
	failed := false
	for _, sample := range m.samples {
		switch {
		case sample.at.Before(since):
		case sample.node == "":
			failed = true
		case failed:
			longest = max(longest, sample.at.Sub(good))
			good, failed = sample.at, false
		default:
			good = sample.at
		}
	}
	if failed {
		longest = max(longest, time.Since(good))
	}
	return longest
}
