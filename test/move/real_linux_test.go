package move_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	labironic "github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

// imageContent is the image of all machines.
const imageContent = `{"rootfs":"0123456789abcdef"}`

// realIronic is a real Ironic, and machines that are nothing but their management controllers.
type realIronic struct {
	root    string
	process *ironic.Process
	server  *httptest.Server

	mutex sync.Mutex
	// power of the machines by name. Off unless it is there.
	power map[string]string
	// done counts what was done to machines, by name.
	done map[string]int
}

func newRealIronic(ctx context.Context) *realIronic {
	GinkgoHelper()
	if os.Geteuid() != 0 {
		Skip("a real Ironic needs root: it runs in a root file system of its own")
	}
	root, err := ironic.CachedRoot()
	Expect(err).NotTo(HaveOccurred())
	if root == "" {
		Skip("the cache holds no real Ironic: make lab builds it")
	}
	r := &realIronic{root: root, power: map[string]string{}, done: map[string]int{}}
	r.server = httptest.NewServer(r.machines())
	DeferCleanup(r.server.Close)
	r.run(ctx, ironic.Options{Root: root, Log: GinkgoWriter})
	DeferCleanup(func(ctx context.Context) { Expect(r.process.Stop(ctx)).To(Succeed()) })
	return r
}

func (r *realIronic) run(ctx context.Context, options ironic.Options) {
	GinkgoHelper()
	var err error
	r.process, err = ironic.Run(ctx, options)
	Expect(err).NotTo(HaveOccurred())
}

func (r *realIronic) settings() labironic.Settings {
	return labironic.Settings{
		Endpoint: r.process.Endpoint(), CA: r.process.Credentials.CA,
		Username: r.process.Credentials.Username, Password: r.process.Credentials.Password,
	}
}

func (r *realIronic) empty(ctx context.Context) {
	GinkgoHelper()
	Expect(r.process.Stop(ctx)).To(Succeed())
	r.run(ctx, ironic.Options{
		Root: r.root, Log: GinkgoWriter, Config: r.process.Config, Credentials: r.process.Credentials,
	})
}

func (r *realIronic) controllers() string { return r.server.URL + "/machines/" }

func (r *realIronic) image() *infrav1.Image {
	url := r.server.URL + "/images/node.img"
	return &infrav1.Image{URL: url, Checksum: url + ".sha256sum", ChecksumType: "sha256"}
}

// machines serve the management controllers of all machines, and the image.
func (r *realIronic) machines() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /images/node.img", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, imageContent)
	})
	mux.HandleFunc("GET /images/node.img.sha256sum", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "%x  node.img\n", sha256.Sum256([]byte(imageContent)))
	})
	mux.HandleFunc("GET /machines/{machine}/inventory", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"inventory": {
			"cpu": {"architecture": "x86_64", "count": 2}, "memory": {"physical_mb": 2048}, "hostname": "machine",
			"disks": [{"name": "/dev/sda", "size": 1073741824}], "interfaces": [], "system_vendor": {}
		}, "plugin_data": {}}`)
	})
	mux.HandleFunc("/machines/{machine}/power", r.servePower)
	// Disks and media take what they are given.
	mux.HandleFunc("/machines/{machine}/{what}", func(http.ResponseWriter, *http.Request) {})
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if part := strings.Split(request.URL.Path, "/"); request.Method != http.MethodGet && len(part) > 2 {
			r.mutex.Lock()
			r.done[part[2]]++
			r.mutex.Unlock()
		}
		mux.ServeHTTP(w, request)
	})
}

func (r *realIronic) acts() map[string]int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return maps.Clone(r.done)
}

func (r *realIronic) servePower(w http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	name := request.PathValue("machine")
	if request.Method == http.MethodPut {
		var wanted struct{ Power string }
		if err := json.NewDecoder(request.Body).Decode(&wanted); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.power[name] = "on"
		if wanted.Power == "off" || wanted.Power == "soft-off" {
			delete(r.power, name)
		}
		return
	}
	power := "off"
	if r.power[name] != "" {
		power = "on"
	}
	// A client that has gone does not matter.
	_ = json.NewEncoder(w).Encode(map[string]string{"power": power})
}
