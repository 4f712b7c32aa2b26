package env

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

// seed is what an API server stored in etcd for installed CRDs. Another API server that starts on it serves them at
// once. An API server that installs CRDs one by one takes three times as much processor time for its start.
type seed struct {
	// Key identifies the inputs of the seed. A seed with another key is outdated.
	Key string

	// Definitions are the CRDs without their schemas.
	Definitions []*apiextensionsv1.CustomResourceDefinition

	// Pairs are keys and values of etcd, in base64.
	Pairs []pair
}

type pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// definitionsPrefix begins the keys of CRDs in etcd, and definitionsEnd is the first key after them.
const (
	definitionsPrefix = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
	definitionsEnd    = "/registry/apiextensions.k8s.io/customresourcedefinitions0"
)

// findSeed returns the seed with the CRDs of the groups. The first call installs them on an API server, and stores the
// seed in the cache.
func (s *Server) findSeed(ctx context.Context, groups []components.Group) (seed, error) {
	key, err := s.seedKey(groups)
	if err != nil {
		return seed{}, err
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		return seed{}, err
	}
	names := make([]string, len(groups))
	for i, group := range groups {
		names[i] = string(group)
	}
	path := filepath.Join(cache, "seed-"+strings.Join(names, "+")+".json")
	if found, usable := readSeed(path, key); usable {
		return found, nil
	}
	unlock, err := binaries.Lock(path + ".lock")
	if err != nil {
		return seed{}, err
	}
	defer unlock()
	if found, usable := readSeed(path, key); usable {
		return found, nil
	}
	made, err := s.makeSeed(ctx, groups)
	if err != nil {
		return seed{}, fmt.Errorf("installing the definitions of %s: %w", strings.Join(names, ", "), err)
	}
	made.Key = key
	return made, made.write(path)
}

// seedKey returns the hash of all that determines a seed: the CRDs of this provider, the versions of the modules with
// the others, the code that installs them, and the programs.
func (s *Server) seedKey(groups []components.Group) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, groups)
	for _, pattern := range []string{
		"go.mod", "hack/*/go.mod", "config/crd/bases/*.yaml", "internal/testkit/components/*.go", "internal/testkit/env/*.go",
	} {
		files, err := filepath.Glob(filepath.Join(s.root, filepath.FromSlash(pattern)))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(hash, filepath.Base(file), len(content))
			hash.Write(content)
		}
	}
	for _, program := range []string{"etcd", "kube-apiserver"} {
		found, err := os.Stat(filepath.Join(s.programs.folder, program))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, program, found.Size(), found.ModTime())
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// readSeed returns false for a missing, outdated or unreadable seed, which the caller replaces.
func readSeed(path, key string) (found seed, usable bool) {
	content, err := os.ReadFile(path)
	usable = err == nil && json.Unmarshal(content, &found) == nil && found.Key == key
	return found, usable
}

func (d seed) write(path string) error {
	content, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".partial", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".partial", path)
}

// makeSeed installs the CRDs on an API server, and reads them from its etcd.
func (s *Server) makeSeed(ctx context.Context, groups []components.Group) (made seed, err error) {
	server, err := Start(ctx, Options{Definitions: groups, Progress: s.options.Progress, Roomy: true, installs: true})
	if err != nil {
		return seed{}, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	var definitions apiextensionsv1.CustomResourceDefinitionList
	if err := server.Client.List(ctx, &definitions); err != nil {
		return seed{}, err
	}
	for _, definition := range definitions.Items {
		made.Definitions = append(made.Definitions, withoutSchemas(definition))
	}
	answer := struct {
		Pairs []pair `json:"kvs"`
	}{}
	err = server.askEtcd(ctx, "range", map[string]any{
		"key": []byte(definitionsPrefix), "range_end": []byte(definitionsEnd),
	}, &answer)
	made.Pairs = answer.Pairs
	if err == nil && len(made.Pairs) != len(made.Definitions) {
		err = fmt.Errorf("etcd has %d definitions, want %d", len(made.Pairs), len(made.Definitions))
	}
	return made, err
}

// withoutSchemas returns what a client requires to wait until a CRD is served.
func withoutSchemas(definition apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	short := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: definition.Name},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Group: definition.Spec.Group, Names: definition.Spec.Names},
	}
	for _, version := range definition.Spec.Versions {
		short.Spec.Versions = append(short.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version.Name, Served: version.Served,
		})
	}
	return short
}

// plant writes a seed to etcd before the API server starts.
func (s *Server) plant(ctx context.Context, from seed) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(writers)
	for _, stored := range from.Pairs {
		work.Go(func() error { return s.askEtcd(ctx, "put", stored, &struct{}{}) })
	}
	return work.Wait()
}

// askEtcd calls a method of the key-value service of etcd.
func (s *Server) askEtcd(ctx context.Context, method string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.etcd+"/v3/kv/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // the answer was read
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s of etcd: %s: %s", method, response.Status, content)
	}
	return json.Unmarshal(content, answer)
}

// seededGroups returns the groups of CRDs that come from a seed. With webhooks, the CRDs of this provider contain an
// address that differs for each server.
func (o Options) seededGroups() []components.Group {
	if o.installs {
		return nil
	}
	seeded := slices.Clone(o.Definitions)
	if o.Webhooks {
		seeded = slices.DeleteFunc(seeded, func(group components.Group) bool { return group == components.Provider })
	}
	slices.Sort(seeded)
	return slices.Compact(seeded)
}
