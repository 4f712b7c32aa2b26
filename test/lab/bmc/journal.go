package bmc

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// Operation is one request to a BMC, with its response.
type Operation struct {
	// Time is the time of the request, and Duration the time until the response.
	Time     time.Time     `json:"time"`
	Duration time.Duration `json:"duration"`
	// Machine is the machine in the request, which may not exist. Empty for sessions.
	Machine string `json:"machine"`
	// Method is the HTTP method: GET only reads, POST and PATCH change the machine.
	Method string `json:"method"`
	// Resource is the requested resource: system, boot, reset, manager, slot, insert, eject, card, sessions and so on.
	Resource string `json:"resource"`
	// Detail is the type of the reset, the boot source or the address of the medium.
	Detail string `json:"detail,omitempty"`
	// Status is the HTTP status of the response.
	Status int `json:"status"`
	// Problem is the error in the response, or empty.
	Problem string `json:"problem,omitempty"`
}

// Changes returns true if the request was to change a machine, successfully or not.
func (o Operation) Changes() bool {
	return o.Method != http.MethodGet && o.Method != http.MethodHead && o.Resource != sessionsResource
}

// journal keeps operations in the order of their responses.
type journal struct {
	mutex      sync.Mutex
	operations []Operation
}

func (j *journal) add(operation Operation) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.operations = append(j.operations, operation)
}

// copy returns the operations in the order of the requests.
func (j *journal) copy() []Operation {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	sorted := slices.Clone(j.operations)
	slices.SortStableFunc(sorted, func(a, b Operation) int { return a.Time.Compare(b.Time) })
	return sorted
}
