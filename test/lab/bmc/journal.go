package bmc

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// Operation is one request to a board controller, and how it was answered.
type Operation struct {
	// Time is when the request came, and Duration how long the answer took.
	Time     time.Time     `json:"time"`
	Duration time.Duration `json:"duration"`
	// Machine is the name in the request, whether or not there is such a machine. Empty for sessions.
	Machine string `json:"machine"`
	// Method is the one of HTTP: GET only reads, POST and PATCH change the machine.
	Method string `json:"method"`
	// Resource is what was asked: system, boot, reset, manager, slot, insert, eject, card, sessions and so on.
	Resource string `json:"resource"`
	// Detail is the type of the reset, the boot source or the address of the medium.
	Detail string `json:"detail,omitempty"`
	// Status is the HTTP status of the answer.
	Status int `json:"status"`
	// Problem is the error in the answer. Empty if there is none.
	Problem string `json:"problem,omitempty"`
}

// Changes tells whether the operation asked for a change of a machine, successfully or not.
func (o Operation) Changes() bool {
	return o.Method != http.MethodGet && o.Method != http.MethodHead && o.Resource != sessionsResource
}

// journal keeps operations in the order in which their answers were sent.
type journal struct {
	mutex      sync.Mutex
	operations []Operation
}

func (j *journal) add(operation Operation) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.operations = append(j.operations, operation)
}

// copy sorts by the time of the request: that is when something was asked for.
func (j *journal) copy() []Operation {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	sorted := slices.Clone(j.operations)
	slices.SortStableFunc(sorted, func(a, b Operation) int { return a.Time.Compare(b.Time) })
	return sorted
}
