package plugin

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	// requestLimit is the limit for one request.
	requestLimit = 30 * time.Second
)

// Names of the sides of a move in outputs.
const (
	sourceSide = "source"
	targetSide = "target"
)

// sides are the flags that name the clusters, as clusterctl move has them.
type sides struct {
	kubeconfig, context, toKubeconfig, toContext, namespace string
}

func (s *sides) add(set *pflag.FlagSet) {
	s.addOne(set, "kubeconfig file of the source cluster; default: as kubectl finds it")
	set.StringVar(&s.toKubeconfig, "to-kubeconfig", "", "kubeconfig file of the target cluster")
	set.StringVar(&s.toContext, "to-kubeconfig-context", "", "context of --to-kubeconfig; default: the current one")
}

// addOne adds the flags for a single cluster.
func (s *sides) addOne(set *pflag.FlagSet, usage string) {
	set.StringVar(&s.kubeconfig, "kubeconfig", "", usage)
	set.StringVar(&s.context, "kubeconfig-context", "", "context of --kubeconfig; default: the current one")
	set.StringVarP(&s.namespace, "namespace", "n", "",
		"namespace of the Clusters and hosts; default: that of the context")
}

// flags returns the flags that name the clusters, quoted for a shell. The result begins with a space.
func (s *sides) flags() string {
	var text strings.Builder
	for _, flag := range [][2]string{
		{"kubeconfig", s.kubeconfig}, {"kubeconfig-context", s.context},
		{"to-kubeconfig", s.toKubeconfig}, {"to-kubeconfig-context", s.toContext},
	} {
		if flag[1] != "" {
			text.WriteString(" --" + flag[0] + " " + quoted(flag[1]))
		}
	}
	return text.String()
}

// quoted returns a word for a shell. It adds quotes only if the shell requires them.
func quoted(word string) string {
	plain := func(character rune) bool {
		return character <= unicode.MaxASCII && (unicode.IsLetter(character) || unicode.IsDigit(character)) ||
			strings.ContainsRune("@%+=:,./-_", character)
	}
	if strings.IndexFunc(word, func(character rune) bool { return !plain(character) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Values of --output. Wide is for status only.
const (
	formText = "text"
	formWide = "wide"
	formJSON = "json"
	formYAML = "yaml"
)

// output is the flag that selects text, or documents for programs.
type output string

func (o *output) add(set *pflag.FlagSet) {
	set.StringVarP((*string)(o), "output", "o", formText, "text, json or yaml; status also has wide")
}

func (o output) check() error {
	switch o {
	case formText, formJSON, formYAML:
		return nil
	default:
		return fmt.Errorf("--output is %q; use text, json or yaml", string(o))
	}
}

// machine returns true for documents for programs.
func (o output) machine() bool { return o == formJSON || o == formYAML }

// print writes a document. A document of a stream takes one line, or begins with three dashes.
func (o output) write(writer io.Writer, document any, stream bool) error {
	if o != formYAML {
		return printJSON(writer, document, stream)
	}
	content, err := yaml.Marshal(document)
	if err == nil && stream {
		content = append([]byte("---\n"), content...)
	}
	if err == nil {
		_, err = writer.Write(content)
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// documentVersion is the apiVersion of all documents that the plugin writes.
const documentVersion = "plugin.infrastructure.cluster.x-k8s.io/v1alpha1"

// header identifies a document.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func headerOf(kind string) header { return header{APIVersion: documentVersion, Kind: kind} }

// cluster has the client of a cluster.
type cluster struct {
	client client.Client

	// side is its name in outputs. Flag is the flag that names it.
	side, flag string

	// namespace is the namespace of the context.
	namespace string

	// file and context are the kubeconfig and the context of the cluster.
	file, context string

	// hosts are the hosts of the last read, by namespace.
	hosts map[string]hostMemory
}

// open returns clients of the source, and of the target if it is named. It sends no request.
func (s *sides) open() (source, target *cluster, err error) {
	if s.toKubeconfig == "" && s.toContext != "" {
		return nil, nil, fmt.Errorf("--to-kubeconfig-context is %q, and --to-kubeconfig is empty: name the file, too",
			s.toContext)
	}
	if source, err = open(sourceSide, "--kubeconfig", s.kubeconfig, s.context); err != nil {
		return nil, nil, err
	}
	if s.namespace == "" {
		s.namespace = source.namespace
	}
	if s.toKubeconfig != "" {
		target, err = open(targetSide, "--to-kubeconfig", s.toKubeconfig, s.toContext)
	}
	return source, target, err
}

func open(side, flag, file, chosen string) (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: chosen})
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading %s %q: %w; name a kubeconfig file", flag, file, err)
	}
	if _, known := raw.Contexts[chosen]; chosen != "" && !known {
		names := make([]string, 0, len(raw.Contexts))
		for name := range raw.Contexts {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, fmt.Errorf("%s-context is %q, which the file does not have; use one of: %s",
			flag, chosen, strings.Join(names, ", "))
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading %s %q: %w; name a kubeconfig file with a context", flag, file, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the namespace of %s %q: %w; set --namespace", flag, file, err)
	}
	// The plugin sends few requests, and the API server has limits of its own. A client limit would delay requests like a
	// slow API server.
	config.Timeout, config.QPS = requestLimit, -1
	config.WarningHandler = rest.NoWarnings{}
	connected, err := client.New(config, client.Options{Scheme: scheme()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster of %s %q: %w", flag, file, err)
	}
	return &cluster{
		client: connected, side: side, flag: flag, namespace: namespace, file: file, context: chosen,
	}, nil
}
