package env

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
)

// auditPolicy records the requests without contents, after the response. Of running watches it records the start.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// auditFileSize in megabytes prevents rotation.
const auditFileSize = "1000000"

// Request is one answered request.
type Request struct {
	Verb        string
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	User        string
	UserAgent   string
	// Code of the response, such as 200.
	Code int
	// DryRun says that the API server only checked a write.
	DryRun bool
}

// auditEvent has the used fields of a line of the audit log.
type auditEvent struct {
	AuditID    string `json:"auditID"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func (s *Server) auditArgs() ([]string, error) {
	policy, err := s.group.WriteFile("audit-policy.yaml", []byte(auditPolicy))
	if err != nil {
		return nil, err
	}
	return []string{
		"--audit-policy-file=" + policy,
		"--audit-log-path=" + s.auditLog(),
		// The request is written before the response, so that a test counts all answered requests.
		"--audit-log-mode=blocking",
		"--audit-log-format=json",
		"--audit-log-maxsize=" + auditFileSize,
	}, nil
}

// Requests returns all answered requests for resources, in the order of their responses. It requires Options.Audit. A
// watch counts once, at its start.
func (s *Server) Requests() ([]Request, error) {
	if !s.options.Audit {
		return nil, errors.New("Options.Audit is required")
	}
	file, err := os.Open(s.auditLog())
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	return readRequests(file)
}

// CountRequests counts requests by a key. It omits requests with an empty key.
func CountRequests(requests []Request, key func(Request) string) map[string]int {
	counts := map[string]int{}
	for _, request := range requests {
		if name := key(request); name != "" {
			counts[name]++
		}
	}
	return counts
}

// String returns verb and resource: "patch baremetalhosts/status" or "patch baremetalhosts (dry run)".
func (r Request) String() string {
	text := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.DryRun {
		text += " (dry run)"
	}
	return text
}

func readRequests(log io.Reader) ([]Request, error) {
	var requests []Request
	// A watch appears twice, at its beginning and at its end.
	seen := map[string]bool{}
	reader := bufio.NewReader(log)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// The text after the last line end is an incomplete line.
			return requests, nil
		}
		if err != nil {
			return nil, err
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("parsing the audit log: %w", err)
		}
		if event.ObjectRef == nil || seen[event.AuditID] {
			continue
		}
		seen[event.AuditID] = true
		requests = append(requests, event.request())
	}
}

func (e auditEvent) request() Request {
	request := Request{
		Verb: e.Verb, User: e.User.Username, UserAgent: e.UserAgent,
		Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
	}
	if target, err := url.Parse(e.RequestURI); err == nil {
		request.DryRun = target.Query().Has("dryRun")
	}
	if e.ResponseStatus != nil {
		request.Code = e.ResponseStatus.Code
	}
	return request
}
