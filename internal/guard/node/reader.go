package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

// requestTimeout is the limit of one request to the API server.
const requestTimeout = 4 * time.Second

// maxMetadata is larger than the metadata of any object.
const maxMetadata = 2 << 20

// Reader reads the annotations of one Node.
type Reader struct {
	// Kubeconfig is the file of the kubelet.
	Kubeconfig string

	// Node is the name of the Node object.
	Node string

	// Annotation is the name of the annotation, and Yes its value for yes. "false" means no.
	Annotation, Yes string

	// Peers is the name of the annotation with peers.
	Peers string

	// Caches are files that keep the last answer. Store writes all of them, and Cached reads the first valid one.
	Caches []string
}

// Said are the values of the annotations of a Node.
type Said struct {
	// Armed is the meaning of Reader.Annotation.
	Armed policy.Answer

	// Peers is the value of Reader.Peers.
	Peers string
}

// answer is the content of a cache. It is valid for one node and annotation.
type answer struct {
	Node       string        `json:"node"`
	Annotation string        `json:"annotation"`
	Answer     policy.Answer `json:"answer"`
	Peers      string        `json:"peers,omitempty"`
}

// Read requests the Node over a new connection: the kubelet renews its certificate in place, and another API server
// may have the same address. After an error, the caller should keep the last answer.
func (r *Reader) Read(ctx context.Context) (Said, error) {
	annotations, err := r.get(ctx)
	if err != nil {
		return Said{}, fmt.Errorf("reading Node %s: %w", r.Node, err)
	}
	return Said{Armed: r.meaning(annotations), Peers: annotations[r.Peers]}, nil
}

func (r *Reader) meaning(annotations map[string]string) policy.Answer {
	value, found := annotations[r.Annotation]
	switch {
	case !found:
		return ""
	case value == r.Yes:
		return policy.Yes
	case value == "false":
		return policy.No
	default:
		return policy.Unclear
	}
}

// Cached returns the last answer. It is empty if there was none for this node and annotation.
func (r *Reader) Cached() Said {
	for _, path := range r.Caches {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var kept answer
		if json.Unmarshal(content, &kept) == nil && kept.Node == r.Node && kept.Annotation == r.Annotation {
			return Said{kept.Answer, kept.Peers}
		}
	}
	return Said{}
}

// Store writes the caches that differ from the answer.
func (r *Reader) Store(said Said) error {
	content, err := json.Marshal(answer{r.Node, r.Annotation, said.Armed, said.Peers})
	if err != nil {
		return err
	}
	var failures []error
	for _, path := range r.Caches {
		if kept, err := os.ReadFile(path); err == nil && string(kept) == string(content) {
			continue
		}
		failures = append(failures, track.Replace(path, content))
	}
	return errors.Join(failures...)
}

// get returns the annotations. A Node that does not exist has none.
func (r *Reader) get(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	access, err := loadAccess(r.Kubeconfig)
	if err != nil {
		return nil, err
	}
	address := strings.TrimSuffix(access.server, "/") + "/api/v1/nodes/" + url.PathEscape(r.Node)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	// The rest of a Node is some ten times larger and changes often.
	request.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
	request.Header.Set("User-Agent", "metal3-guard")
	client := http.Client{Transport: &http.Transport{TLSClientConfig: access.tls, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
		return decode(io.LimitReader(response.Body, maxMetadata), r.Node)
	case http.StatusNotFound:
		return nil, confirmNotFound(io.LimitReader(response.Body, maxMetadata))
	default:
		return nil, fmt.Errorf("the API server answered %s", response.Status)
	}
}

func decode(body io.Reader, name string) (map[string]string, error) {
	var object struct {
		Metadata struct {
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &object); err != nil {
		return nil, fmt.Errorf("the answer is no object: %w", err)
	}
	if object.Metadata.Name != name {
		return nil, fmt.Errorf("the answer is about %q", object.Metadata.Name)
	}
	return object.Metadata.Annotations, nil
}

// confirmNotFound returns an error unless an API server reports that the object does not exist: a misconfigured proxy
// answers 404 too.
func confirmNotFound(body io.Reader) error {
	var status struct {
		Kind   string `json:"kind"`
		Reason string `json:"reason"`
	}
	if err := json.NewDecoder(body).Decode(&status); err != nil || status.Kind != "Status" || status.Reason != "NotFound" {
		return errors.New("the answer is 404 Not Found and not from an API server")
	}
	return nil
}
