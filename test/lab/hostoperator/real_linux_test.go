package hostoperator_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

// startLimit is how long a real Ironic may take, with the root file system that may have to be made first.
const startLimit = 15 * time.Minute

// realBackend is a real Ironic, and machines that are nothing but their management controllers.
type realBackend struct {
	root    string
	process *ironic.Process
	server  *httptest.Server

	lock     sync.Mutex
	machines map[string]*machine
}

// machine is what a management controller knows of its machine.
type machine struct {
	power    string
	media    string
	commands []string
}

func newRealBackend() *realBackend { return &realBackend{machines: map[string]*machine{}} }

func (b *realBackend) start(ctx context.Context) {
	if os.Geteuid() != 0 {
		Skip("a real Ironic needs root: it runs in a root file system of its own")
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var err error
	b.root, _, err = ironic.EnsureRoot(ctx, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	b.server = httptest.NewServer(b.controllers())
	DeferCleanup(b.server.Close)
	b.run(ctx, ironic.Options{Root: b.root, Log: GinkgoWriter})
	DeferCleanup(func(ctx context.Context) { b.lose(ctx) })
}

func (b *realBackend) run(ctx context.Context, options ironic.Options) {
	GinkgoHelper()
	var err error
	b.process, err = ironic.Run(ctx, options)
	Expect(err).NotTo(HaveOccurred())
}

func (b *realBackend) settings() ironicapi.Settings {
	return ironicapi.Settings{
		Endpoint: b.process.Endpoint(), CA: b.process.Credentials.CA,
		Username: b.process.Credentials.Username, Password: b.process.Credentials.Password,
	}
}

func (b *realBackend) lose(ctx context.Context) {
	GinkgoHelper()
	Expect(b.process.Stop(ctx)).To(Succeed())
}

func (b *realBackend) replace(ctx context.Context) {
	GinkgoHelper()
	b.run(ctx, ironic.Options{
		Root: b.root, Log: GinkgoWriter, Config: b.process.Config, Credentials: b.process.Credentials,
	})
}

func (b *realBackend) address(machine string) string { return b.server.URL + "/machines/" + machine }

func (b *realBackend) commands(name string) []string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return slices.Clone(b.machine(name).commands)
}

func (b *realBackend) powered(name string) bool {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.machine(name).power == "on"
}

func (b *realBackend) image() *bmov1alpha1.Image {
	url := b.server.URL + "/images/node.img"
	return &bmov1alpha1.Image{URL: url, Checksum: url + ".sha256sum", ChecksumType: bmov1alpha1.SHA256}
}

func (b *realBackend) drive(name string) string {
	GinkgoHelper()
	b.lock.Lock()
	defer b.lock.Unlock()
	compressed, err := base64.StdEncoding.DecodeString(b.machine(name).media)
	Expect(err).NotTo(HaveOccurred())
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	Expect(err).NotTo(HaveOccurred())
	// The files lie in an ISO image as they are.
	content, err := io.ReadAll(reader)
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

func (b *realBackend) machine(name string) *machine {
	if b.machines[name] == nil {
		b.machines[name] = &machine{power: "off"}
	}
	return b.machines[name]
}

// controllers serve the management controllers of all machines, and the images.
func (b *realBackend) controllers() http.Handler {
	const content = `{"rootfs":"0123456789abcdef"}`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /images/node.img", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content) })
	mux.HandleFunc("GET /images/{name}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%x  node.img\n%x  node.img.missing\n", sha256.Sum256([]byte(content)), sha256.Sum256(nil))
	})
	mux.HandleFunc("GET /images/node.img.missing", http.NotFound)
	mux.HandleFunc("/machines/{machine}/{what}", func(w http.ResponseWriter, r *http.Request) {
		b.lock.Lock()
		defer b.lock.Unlock()
		if _, password, _ := r.BasicAuth(); password != goodPassword {
			http.Error(w, "wrong password", http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b.machine(r.PathValue("machine")).serve(w, r.Method+" "+r.PathValue("what"), body)
	})
	return mux
}

// serve answers one request to the management controller of this machine.
func (m *machine) serve(w http.ResponseWriter, request string, body []byte) {
	switch request {
	case "GET power":
		_ = json.NewEncoder(w).Encode(map[string]string{"power": m.power})
	case "GET inventory":
		_, _ = io.WriteString(w, `{"inventory": {
			"cpu": {"architecture": "x86_64", "count": 2}, "memory": {"physical_mb": 2048}, "hostname": "machine",
			"disks": [{"name": "/dev/sda", "size": 1073741824}], "interfaces": [], "system_vendor": {}
		}, "plugin_data": {}}`)
	case "PUT power":
		var wanted struct{ Power string }
		if err := json.Unmarshal(body, &wanted); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.power = "on"
		if wanted.Power == "off" || wanted.Power == "soft-off" {
			m.power = "off"
		}
		m.commands = append(m.commands, "power "+wanted.Power)
	case "PUT media":
		m.media = string(body)
		m.commands = append(m.commands, request)
	case "DELETE media", "PUT disk", "DELETE disk":
		m.commands = append(m.commands, request)
	default:
		http.Error(w, "unknown request "+request, http.StatusNotFound)
	}
}
