package ironic

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	bmcUser     = "operator"
	bmcPassword = "correct-horse"
	// served is what the image server of a test serves under every name that imageURL makes.
	served = `{"rootfs":"0123456789abcdef"}` + "\n"
)

// bmc is one machine behind its BMC, and the server of its images.
type bmc struct {
	server *httptest.Server

	mutex    sync.Mutex
	power    string
	disk     string
	media    string
	stuck    bool
	commands []string
}

// newBMC starts the BMC of a machine that is off and has an empty disk.
func newBMC(t *testing.T) *bmc {
	t.Helper()
	b := &bmc{power: "off"}
	mux := http.NewServeMux()
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET /machines/m0/power":     b.getPower,
		"PUT /machines/m0/power":     b.putPower,
		"PUT /machines/m0/disk":      b.putDisk,
		"DELETE /machines/m0/disk":   b.deleteDisk,
		"PUT /machines/m0/media":     b.putMedia,
		"DELETE /machines/m0/media":  b.deleteMedia,
		"GET /machines/m0/inventory": getInventory,
	} {
		mux.HandleFunc(pattern, b.guarded(handle))
	}
	mux.HandleFunc("GET /images/good.img", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, served) })
	mux.HandleFunc("GET /images/good.img.sha256sum", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s  other.img\n%s  good.img\n", strings.Repeat("0", 64), sha256Of(served))
	})
	b.server = httptest.NewServer(mux)
	t.Cleanup(b.server.Close)
	return b
}

// guarded asks for the credentials, records what changes the machine and serialises everything.
func (b *bmc) guarded(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != bmcUser || password != bmcPassword {
			http.Error(w, "unknown user or wrong password", http.StatusUnauthorized)
			return
		}
		b.mutex.Lock()
		defer b.mutex.Unlock()
		handle(w, r)
	}
}

func (b *bmc) record(format string, arguments ...any) {
	b.commands = append(b.commands, fmt.Sprintf(format, arguments...))
}

func (b *bmc) getPower(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(map[string]string{"power": b.power})
}

func (b *bmc) putPower(w http.ResponseWriter, r *http.Request) {
	var want struct{ Power string }
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.record("power %s", want.Power)
	switch {
	case b.stuck && strings.HasPrefix(want.Power, "soft"):
		http.Error(w, "the operating system does not shut down", http.StatusGatewayTimeout)
	case want.Power == "off" || want.Power == "soft-off":
		b.power = "off"
	default:
		b.power = "on"
	}
}

func (b *bmc) putDisk(w http.ResponseWriter, r *http.Request) {
	var want struct{ Image string }
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if b.power == "on" && b.disk != "" {
		http.Error(w, "an operating system runs", http.StatusConflict)
		return
	}
	b.record("write disk")
	b.disk = want.Image
}

func (b *bmc) deleteDisk(http.ResponseWriter, *http.Request) {
	b.record("wipe disk")
	b.disk = ""
}

func (b *bmc) putMedia(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.record("insert media")
	b.media = string(content)
}

func (b *bmc) deleteMedia(http.ResponseWriter, *http.Request) {
	b.record("eject media")
	b.media = ""
}

func getInventory(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `{"inventory": {
	  "cpu": {"architecture": "x86_64", "count": 4}, "memory": {"physical_mb": 8192},
	  "disks": [{"name": "/dev/sda", "size": 107374182400}],
	  "interfaces": [{"name": "eth0", "mac_address": "02:22:00:00:00:21"}], "system_vendor": {"product_name": "m0"}
	}, "plugin_data": {"colour": "green"}}`)
}

// sent returns what changed the machine since the last call.
func (b *bmc) sent() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	defer func() { b.commands = nil }()
	return slices.Clone(b.commands)
}

// state returns the power state, what the disk holds and what is in the slot.
func (b *bmc) state() (power, disk, media string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.power, b.disk, b.media
}

// setStuck makes the operating system ignore a polite request to shut down.
func (b *bmc) setStuck() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.stuck = true
}

func (b *bmc) imageURL(name string) string { return b.server.URL + "/images/" + name }

func (b *bmc) driverInfo() map[string]any {
	return map[string]any{
		"lab_address": b.server.URL + "/machines/m0", "lab_username": bmcUser, "lab_password": bmcPassword,
	}
}

func sha256Of(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func sha512Of(content string) string {
	sum := sha512.Sum512([]byte(content))
	return hex.EncodeToString(sum[:])
}
