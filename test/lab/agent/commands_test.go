package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTokens sends commands with different tokens.
func TestTokens(t *testing.T) {
	for name, test := range map[string]struct {
		reason      string
		own, offers string
		want        int
	}{
		"right": {"Ironic", "T", "T", http.StatusOK},
		"wrong": {"another client", "T", "U", http.StatusUnauthorized},
		"none":  {"another client", "T", "", http.StatusUnauthorized},
		"empty": {"an agent without a token rejects all commands", "", "", http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			commands := newCommands(steps{}, test.own, slog.New(slog.DiscardHandler))
			defer commands.close()
			answer := httptest.NewRecorder()
			commands.handler().ServeHTTP(answer,
				httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/commands/?agent_token="+test.offers, http.NoBody))
			if answer.Code != test.want {
				t.Errorf("%s: got %d, want %d", test.reason, answer.Code, test.want)
			}
		})
	}
}

// TestPowerButton ends the agent while Ironic does not answer.
func TestPowerButton(t *testing.T) {
	for name, parameters := range map[string]Parameters{
		"inspection": {Inspection: "/v1/continue_inspection"},
		"lookup":     {API: "/"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, press := context.WithCancel(t.Context())
			ironic := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
				_, _ = io.Copy(io.Discard, request.Body)
				press()
				<-request.Context().Done()
			}))
			defer ironic.Close()
			if parameters.Inspection != "" {
				parameters.Inspection = ironic.URL + parameters.Inspection
			} else {
				parameters.API = ironic.URL
			}
			made, err := New(Options{Parameters: parameters, Machine: noHardware{}, Address: netip.MustParseAddr("127.0.0.1")})
			if err != nil {
				t.Fatal(err)
			}
			if err := made.Run(ctx); err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

// noHardware is a machine without components.
type noHardware struct{ Machine }

func (noHardware) Inventory() (any, error) { return map[string]any{}, nil }

// TestNoToken has a medium without a token, and an Ironic that has sent its token before.
func TestNoToken(t *testing.T) {
	ironic := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		_, _ = writer.Write([]byte(`{"node": {"uuid": "n"}, "config": {"heartbeat_timeout": 10, "agent_token": "******"}}`))
	}))
	defer ironic.Close()
	made, err := New(Options{Parameters: Parameters{API: ironic.URL}, Address: netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	made.Listen = func(context.Context, string, string) (net.Listener, error) {
		t.Error("the agent serves commands")
		return nil, net.ErrClosed
	}
	if err := made.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("got error %v, want one that names the token", err)
	}
}

// disk is a machine that records the written image.
type disk struct {
	Machine
	image string
	drive map[string][]byte
}

func (d *disk) Write(_ context.Context, image []byte, drive map[string][]byte) error {
	d.image, d.drive = string(image), drive
	return nil
}

// TestInstallStep has the config drive in the node, as Ironic stores the one of BMO.
func TestInstallStep(t *testing.T) {
	for name, test := range map[string]struct {
		instance string
		want     map[string]string
	}{
		"with a config drive": {
			`{"configdrive": {"meta_data": {"name": "one"}, "network_data": {"links": []}, "user_data": "#cloud-config"}}`,
			map[string]string{
				"openstack/latest/meta_data.json":    `{"name": "one"}`,
				"openstack/latest/network_data.json": `{"links": []}`,
				"openstack/latest/user_data":         "#cloud-config",
			},
		},
		"with a part of one": {
			`{"configdrive": {"meta_data": {"name": "one"}}}`,
			map[string]string{"openstack/latest/meta_data.json": `{"name": "one"}`},
		},
		"without": {`{}`, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			written := &disk{}
			installs := steps{machine: written, node: "http://images/node", download: func(_ context.Context, url string) ([]byte, error) {
				return []byte("from " + url), nil
			}}
			step := `{"interface": "deploy", "step": "install_node", "args": {}}`
			result, err := installs.deploy(t.Context(), json.RawMessage(
				`{"step": `+step+`, "node": {"instance_info": `+test.instance+`}}`))
			if err != nil {
				t.Fatal(err)
			}
			answer, _ := result.(map[string]any)
			if echo, _ := answer["deploy_step"].(json.RawMessage); string(echo) != step {
				t.Errorf("the step is not echoed: %v", result)
			}
			drive := map[string]string{}
			for name, content := range written.drive {
				drive[name] = string(content)
			}
			if diff := cmp.Diff(test.want, drive); diff != "" || written.image != "from http://images/node" {
				t.Errorf("the image is %q, the config drive (-want +got):\n%s", written.image, diff)
			}
		})
	}
}

// TestLogs reads the log of a failed agent.
func TestLogs(t *testing.T) {
	book := &logbook{}
	commands := newCommands(steps{book: book}, "T", slog.New(slog.NewTextHandler(book, nil)))
	defer commands.close()
	take := func(command string) map[string]any {
		answer := httptest.NewRecorder()
		commands.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"/v1/commands/?wait=true&agent_token=T", strings.NewReader(command)))
		var taken map[string]any
		if err := json.Unmarshal(answer.Body.Bytes(), &taken); err != nil {
			t.Fatalf("%s: %v", answer.Body, err)
		}
		return taken
	}
	if taken := take(`{"name": "clean.execute_clean_step", "params": {"step": {"step": "juggle"}}}`); taken["command_status"] != failed {
		t.Errorf("an unknown step: %v", taken)
	}
	taken := take(`{"name": "log.collect_system_logs", "params": {}}`)
	result, _ := taken["command_result"].(map[string]any)
	encoded, _ := result["system_logs"].(string)
	if log := unpack(t, encoded); !strings.Contains(log, "juggle") {
		t.Errorf("the log does not name the step that failed: %s", log)
	}
}

func TestLogsAreLimited(t *testing.T) {
	book := &logbook{}
	for range 3 {
		if _, err := book.Write(bytes.Repeat([]byte("x"), logLimit/2)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := book.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	if len(book.content) != logLimit || !bytes.HasSuffix(book.content, []byte("xlast")) {
		t.Errorf("%d bytes are kept", len(book.content))
	}
}

// unpack reads the only file of an archive.
func unpack(t *testing.T, encoded string) string {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(compressed)
	header, err := archive.Next()
	if err != nil || header.Name != "agent.log" {
		t.Fatalf("the archive has %v, %v", header, err)
	}
	content, err := io.ReadAll(archive)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
