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
	// bodyLimit is the maximum size of a request.
	bodyLimit = 1 << 20
	// operationLimit is the time limit of an operation after the client has disconnected.
	operationLimit = 5 * time.Minute
)

// problem is an error with an HTTP status.
type problem struct {
	status int
	error
}

// Unwrap returns the cause.
func (p problem) Unwrap() error { return p.error }

// answer handles a request to a BMC. A nil value is an empty response.
type answer func(ctx context.Context, controller *controller, request *exchange) (any, error)

// exchange is one request.
type exchange struct {
	*http.Request
	// detail is for the journal.
	detail string
}

// route is the handler of a resource.
type route struct {
	// resource is the name in the journal.
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

// recorded handles a request and adds it to the journal before it sends the response.
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
			writer.Header().Set("WWW-Authenticate", `Basic realm="BMC"`)
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

// respond writes a value, or nothing for nil.
func respond(writer http.ResponseWriter, status int, value any) {
	if value == nil {
		writer.WriteHeader(status)
		return
	}
	writer.Header().Set("Content-Type", "application/json")
	writer.WriteHeader(status)
	// The client may have disconnected.
	_ = json.NewEncoder(writer).Encode(value)
}

// permitted handles a request with the user name and password of the machine.
func (s *Server) permitted(request *exchange, do answer) (any, error) {
	name := request.PathValue("machine")
	found := s.find(name)
	if found == nil {
		return nil, problem{http.StatusNotFound, fmt.Errorf("machine %s does not exist", name)}
	}
	fault := found.currentFault()
	if err := fault.wait(request.Context()); err != nil {
		return nil, problem{http.StatusServiceUnavailable, err}
	}
	if fault.Busy {
		return nil, problem{http.StatusServiceUnavailable, fmt.Errorf("the BMC of machine %s is busy", name)}
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

// changing runs changes of a machine one after the other, to their end even if the client disconnects.
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

// statusOf returns the HTTP status for an error.
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
