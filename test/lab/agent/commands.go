package agent

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// States of a command.
const (
	running   = "RUNNING"
	succeeded = "SUCCEEDED"
	failed    = "FAILED"
	mismatch  = "CLEAN_VERSION_MISMATCH"
)

// command is a command and its result, in the format of Ironic.
type command struct {
	ID     string          `json:"id"`
	Name   string          `json:"command_name"`
	Params json.RawMessage `json:"command_params"`
	Status string          `json:"command_status"`
	Error  *commandError   `json:"command_error"`
	Result any             `json:"command_result"`

	done chan struct{}
}

// commandError is the error of a command.
type commandError struct {
	Type    string `json:"type"`
	Code    int    `json:"code"`
	Message string `json:"message"`
	Details string `json:"details"`
}

func (e *commandError) Error() string { return e.Message + ": " + e.Details }

// errMismatch is the error for steps of another version of the agent.
var errMismatch = errors.New("the steps are those of another version")

// commands runs commands one after the other and keeps them, for one boot.
type commands struct {
	extensions map[string]extension
	token      string
	log        *slog.Logger
	// finished has room for one notification of the end of a command.
	finished chan struct{}

	ctx  context.Context //nolint:containedctx // A command outlives its request and ends with the agent.
	stop context.CancelFunc

	mutex sync.Mutex
	list  []*command
}

// extension is the function of a command. Long ones answer before they are done.
type extension struct {
	long bool
	do   func(ctx context.Context, params json.RawMessage) (any, error)
}

func newCommands(of steps, token string, log *slog.Logger) *commands {
	ctx, stop := context.WithCancel(context.Background())
	return &commands{
		extensions: of.extensions(), token: token, log: log,
		finished: make(chan struct{}, 1), ctx: ctx, stop: stop,
	}
}

// close ends running commands.
func (c *commands) close() { c.stop() }

func (c *commands) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/commands/{$}", c.permitted(c.all))
	mux.HandleFunc("GET /v1/commands/{id}", c.permitted(c.one))
	mux.HandleFunc("POST /v1/commands/{$}", c.permitted(c.take))
	return mux
}

// fault is an HTTP error in the format of ironic-python-agent.
type fault struct {
	status  int
	Code    string `json:"faultcode"`
	Message string `json:"faultstring"`
}

func (c *commands) permitted(answer func(*http.Request) (any, *fault)) http.HandlerFunc {
	return func(writer http.ResponseWriter, request *http.Request) {
		token := request.URL.Query().Get("agent_token")
		value, wrong := any(nil), &fault{http.StatusUnauthorized, "Client", "the agent token is wrong"}
		if c.token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(c.token)) == 1 {
			value, wrong = answer(request)
		}
		writer.Header().Set("Content-Type", "application/json")
		if wrong != nil {
			writer.WriteHeader(wrong.status)
			value = wrong
		}
		// The client may have disconnected.
		_ = json.NewEncoder(writer).Encode(value)
	}
}

func (c *commands) all(*http.Request) (any, *fault) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	list := make([]command, 0, len(c.list))
	for _, one := range c.list {
		list = append(list, *one)
	}
	return map[string]any{"commands": list}, nil
}

func (c *commands) one(request *http.Request) (any, *fault) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, one := range c.list {
		if one.ID == request.PathValue("id") {
			return c.shown(request, one), nil
		}
	}
	return nil, &fault{http.StatusNotFound, "Client", "unknown command"}
}

// take starts a command. Ironic retries if the refusal contains the word busy.
func (c *commands) take(request *http.Request) (any, *fault) {
	var wanted struct {
		Name   string          `json:"name"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.NewDecoder(request.Body).Decode(&wanted); err != nil {
		return nil, &fault{http.StatusBadRequest, "Client", "reading the command: " + err.Error()}
	}
	extension, known := c.extensions[wanted.Name]
	if !known {
		return nil, &fault{http.StatusNotFound, "Client", "unknown command " + wanted.Name}
	}
	_, name, _ := strings.Cut(wanted.Name, ".")
	begun := &command{
		ID: uuid.NewString(), Name: name, Params: wanted.Params, Status: running, done: make(chan struct{}),
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if last := len(c.list) - 1; last >= 0 && c.list[last].Status == running {
		return nil, &fault{http.StatusConflict, "Client", "agent is busy with " + c.list[last].Name}
	}
	c.list = append(c.list, begun)
	go c.execute(begun, extension)
	if !extension.long {
		c.wait(request.Context(), begun)
	}
	return c.shown(request, begun), nil
}

// wait unlocks the mutex until a command has ended.
func (c *commands) wait(ctx context.Context, one *command) {
	c.mutex.Unlock()
	defer c.mutex.Lock()
	select {
	case <-one.done:
	case <-ctx.Done():
	}
}

// shown returns a copy of a command. It waits for the end if the request asks for it.
func (c *commands) shown(request *http.Request, one *command) command {
	if request.URL.Query().Get("wait") == "true" {
		c.wait(request.Context(), one)
	}
	return *one
}

func (c *commands) execute(one *command, extension extension) {
	c.log.Info("command begins", "command", one.Name)
	result, err := extension.do(c.ctx, one.Params)
	c.mutex.Lock()
	one.Result, one.Status = result, succeeded
	var known *commandError
	switch {
	case errors.Is(err, errMismatch):
		one.Status = mismatch
	case errors.As(err, &known):
		one.Error, one.Status = known, failed
	case err != nil:
		one.Error, one.Status = &commandError{"CommandExecutionError", http.StatusInternalServerError,
			"Command execution failed", err.Error()}, failed
	}
	c.log.Info("command ended", "command", one.Name, "status", one.Status, "error", err)
	close(one.done)
	c.mutex.Unlock()
	if extension.long {
		select {
		case c.finished <- struct{}{}:
		default:
		}
	}
}
