package bmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// bodyLimit is how large a request may be.
	bodyLimit = 1 << 20
	// operationLimit is how long an operation may go on after the client has disconnected.
	operationLimit = 5 * time.Minute
)

// problem is an error with the HTTP status that says what kind it is.
type problem struct {
	status int
	error
}

// Unwrap lets the cause be found.
func (p problem) Unwrap() error { return p.error }

// answer is what a request to a board controller leads to. A nil value is an empty answer.
type answer func(ctx context.Context, controller *controller, request *exchange) (any, error)

// exchange is one request.
type exchange struct {
	*http.Request
	// detail goes into the journal.
	detail string
}

// route is what answers requests for a resource.
type route struct {
	// resource is its name in the journal.
	resource string
	do       answer
}

func (s *Server) controllerHandler() http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range s.redfish() {
		mux.HandleFunc(pattern, s.recorded(do))
	}
	mux.HandleFunc("GET "+redfishRoot+"/{$}", serviceRoot)
	serveRegistry(mux)
	mux.HandleFunc("GET "+sessionService, readSessionService)
	mux.HandleFunc("POST "+sessions, s.openSession)
	mux.HandleFunc("DELETE "+sessions+"/{id}", s.closeSession)
	return mux
}

// recorded answers a request and writes both into the journal, before it sends the answer.
func (s *Server) recorded(route route) http.HandlerFunc {
	return func(writer http.ResponseWriter, request *http.Request) {
		request.Body = http.MaxBytesReader(writer, request.Body, bodyLimit)
		current := &exchange{Request: request}
		operation := Operation{
			Time: time.Now(), Machine: request.PathValue("machine"), Method: request.Method, Status: http.StatusOK,
			Resource: route.resource,
		}
		value, err := s.permitted(current, route.do)
		if err != nil {
			operation.Status, operation.Problem = statusOf(err), err.Error()
		} else if value == nil {
			operation.Status = http.StatusNoContent
		}
		operation.Detail, operation.Duration = current.detail, time.Since(operation.Time)
		s.journal.add(operation)
		if operation.Status == http.StatusUnauthorized {
			writer.Header().Set("WWW-Authenticate", `Basic realm="board controller"`)
		}
		if operation.Problem != "" {
			value = failure(operation.Problem)
		}
		respond(writer, operation.Status, value)
	}
}

// failure is the body of an error.
func failure(message string) object {
	return object{"error": object{"code": "Base.1.0.GeneralError", "message": message}}
}

// respond writes a value, or nothing where it is nil.
func respond(writer http.ResponseWriter, status int, value any) {
	if value == nil {
		writer.WriteHeader(status)
		return
	}
	writer.Header().Set("Content-Type", "application/json")
	writer.WriteHeader(status)
	// A client that has gone away gets no answer.
	_ = json.NewEncoder(writer).Encode(value)
}

// permitted answers a request if it comes with the machine's user name and password.
func (s *Server) permitted(request *exchange, do answer) (any, error) {
	name := request.PathValue("machine")
	found := s.find(name)
	if found == nil {
		return nil, problem{http.StatusNotFound, fmt.Errorf("there is no machine %s", name)}
	}
	fault := found.currentFault()
	if err := fault.wait(request.Context()); err != nil {
		return nil, problem{http.StatusServiceUnavailable, err}
	}
	if fault.Busy {
		return nil, problem{http.StatusServiceUnavailable, fmt.Errorf("the board controller of machine %s is busy", name)}
	}
	offered, err := s.offered(request.Request)
	if err != nil {
		return nil, problem{http.StatusUnauthorized, fmt.Errorf("machine %s: %w", name, err)}
	}
	if !found.accepts(offered) {
		return nil, problem{http.StatusUnauthorized, fmt.Errorf("wrong user name or password for machine %s", name)}
	}
	return do(request.Context(), found, request)
}

// changing does what changes a machine when nothing else does, and to its end, whether or not the client waits.
func changing(do answer) answer {
	return func(ctx context.Context, controller *controller, request *exchange) (any, error) {
		select {
		case controller.operation <- struct{}{}:
		case <-ctx.Done():
			err := fmt.Errorf("machine %s: waiting for an earlier operation: %w", controller.name, ctx.Err())
			return nil, problem{http.StatusServiceUnavailable, err}
		}
		defer func() { <-controller.operation }()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), operationLimit)
		defer stop()
		return do(ctx, controller, request)
	}
}

// statusOf tells what kind of failure an error is.
func statusOf(err error) int {
	var known problem
	if errors.As(err, &known) {
		return known.status
	}
	return http.StatusInternalServerError
}

// decode reads a JSON object.
func decode(request *exchange, into any) error {
	if err := json.NewDecoder(request.Body).Decode(into); err != nil {
		return problem{http.StatusBadRequest, fmt.Errorf("reading the request: %w", err)}
	}
	return nil
}
