// Package node reads the annotations of the Node object of the guard with the credentials of the kubelet.
//
// A file keeps the last answer, so that it survives a reboot while the API server is unavailable.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

// requestTimeout is the limit of one request to the API server.
const requestTimeout = 4 * time.Second

// Reader reads the annotations of one Node.
type Reader struct {
	// Kubeconfig is the file of the kubelet.
	Kubeconfig string

	// Node is the name of the Node object.
	Node string

	// Annotation is the name of the annotation, and Yes its value for yes. "false" means no.
	Annotation, Yes string

	// Caches are files that keep the last answer. Store writes all of them, and Cached reads the first valid one.
	Caches []string
}

// Said are the values of the annotations of a Node.
type Said struct {
	// Armed is the meaning of Reader.Annotation.
	Armed policy.Answer `json:"answer"`

	// Peers is the value of vip.PeersAnnotation.
	Peers string `json:"peers,omitempty"`
}

// answer is the content of a cache. It is valid for one node and annotation.
type answer struct {
	Node       string `json:"node"`
	Annotation string `json:"annotation"`
	Said
}

// Read requests the Node over a new connection: the kubelet renews its certificate, and another API server may have the
// same address. After an error, the caller should keep the last answer.
func (r *Reader) Read(ctx context.Context) (Said, error) {
	annotations, err := r.get(ctx)
	if err != nil {
		if replaced := r.replaced(); len(replaced) > 0 {
			err = fmt.Errorf("%w; files %v were replaced after the start of the guard, which still has the old ones; "+
				"restart the guard", err, replaced)
		}
		return Said{}, fmt.Errorf("reading Node %s with %s: %w", r.Node, r.Kubeconfig, err)
	}
	return Said{Armed: r.meaning(annotations), Peers: annotations[vip.PeersAnnotation]}, nil
}

// replaced returns the files of the credentials that are in no directory any more. A mount of a file still has the old
// file when another one gets its name.
func (r *Reader) replaced() []string {
	files := []string{r.Kubeconfig}
	if config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig); err == nil {
		files = append(files, config.CertFile, config.KeyFile, config.CAFile)
	}
	return slices.DeleteFunc(slices.Compact(files), func(file string) bool {
		var found unix.Stat_t
		return unix.Stat(file, &found) != nil || found.Nlink > 0
	})
}

// meaning returns the answer of the annotation. Any other value counts as no annotation.
func (r *Reader) meaning(annotations map[string]string) policy.Answer {
	switch value, found := annotations[r.Annotation]; {
	case found && value == r.Yes:
		return policy.Yes
	case value == "false":
		return policy.No
	default:
		return ""
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
			return kept.Said
		}
	}
	return Said{}
}

// Store writes the caches that differ from the answer.
func (r *Reader) Store(said Said) error {
	content, err := json.Marshal(answer{r.Node, r.Annotation, said})
	if err != nil {
		return err
	}
	var failures []error
	for _, path := range r.Caches {
		failures = append(failures, track.Say(path, string(content)))
	}
	return errors.Join(failures...)
}

// get returns the annotations. A Node that does not exist has none.
func (r *Reader) get(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "metal3-guard"
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	if secure == nil || secure.RootCAs == nil || secure.GetClientCertificate == nil {
		return nil, errors.New("it has no certificate authority or no client certificate of the current context")
	}
	// The client of the library would keep its connections.
	transport := &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}
	client, err := metadata.NewForConfigAndClient(config, &http.Client{Transport: transport})
	if err != nil {
		return nil, err
	}
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	object, err := client.Resource(nodes).Get(ctx, r.Node, metav1.GetOptions{})
	var answered apierrors.APIStatus
	switch {
	// A misconfigured proxy answers 404 too, but not with a Status. Its text may differ in each answer.
	case apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && errors.As(err, &answered):
		return nil, fmt.Errorf("the answer with code %d is not from an API server", answered.Status().Code)
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case object.Name != r.Node:
		return nil, fmt.Errorf("the answer is about %q", object.Name)
	default:
		return object.Annotations, nil
	}
}
