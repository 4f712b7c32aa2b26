package guard_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/health"
)

// webServer is the web server of Ironic on a node, with files that follow a Secret as the kubelet mounts it.
type webServer struct {
	*node
	root string
	// versions counts the contents of the Secret.
	versions int
	ended    <-chan error
}

// startWebServer runs the Apache of the root file system of Ironic with the templates of the image, with the paths
// and users of this machine.
func (n *node) startWebServer(issued material, passwords string) *webServer {
	t := n.lab.t
	t.Helper()
	root := realIronic(t)
	source := os.Getenv("IRONIC_IMAGE_SOURCE")
	if source == "" {
		t.Skip("set IRONIC_IMAGE_SOURCE to a folder with scripts and ironic-config of metal3-io/ironic-image")
	}
	w := &webServer{node: n, root: root}
	for _, folder := range []string{"html/images", "conf/conf.d", "conf/ironic", "private"} {
		must(t, os.MkdirAll(n.path(folder), 0o755))
	}
	// Its workers run as another user.
	n.openFolders()
	w.secret(issued, passwords)
	paths := strings.NewReplacer(
		"/shared/", n.path()+"/", "/etc/httpd/conf.modules.d/*.conf", n.path("conf", "modules.conf"),
		"/etc/httpd/modules", filepath.Join(root, "usr/lib/apache2/modules"), "/etc/mime.types", os.DevNull,
		"User apache", "User #997", "Group apache", "Group #994",
	)
	for from, to := range map[string]string{
		"httpd.conf.j2": "httpd.conf", "httpd-ironic-api.conf.j2": "conf.d/ironic.conf", "httpd-modules.conf": "modules.conf",
	} {
		template, err := os.ReadFile(filepath.Join(source, "ironic-config", from))
		must(t, err)
		n.write(filepath.Join("conf", to), withoutBuiltIn(paths.Replace(n.fillIn(root, string(template)))))
	}
	w.ended = n.run(append(w.follow(), w.apache()...)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the web server:\n%s", n.said)
		}
	})
	return w
}

// withoutBuiltIn removes modules that the Apache of Debian has built in.
func withoutBuiltIn(config string) string {
	var kept strings.Builder
	for line := range strings.Lines(config) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "LoadModule" {
			if _, err := os.Stat(fields[2]); err != nil {
				continue
			}
		}
		kept.WriteString(line)
	}
	return kept.String()
}

// fillIn renders a template of the image.
func (n *node) fillIn(root, template string) string {
	t := n.lab.t
	command := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import os, sys, jinja2\n"+
		"sys.stdout.write(jinja2.Template(sys.stdin.read()).render(env=os.environ))")
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	command.Dir = "/"
	command.Env = []string{
		"PYTHONDONTWRITEBYTECODE=1", "HTTPD_DIR=" + n.path("conf"), "IRONIC_TMP_DATA_DIR=" + n.path("conf"),
		"LISTEN_ALL_INTERFACES=true", "HTTP_PORT=6180", "IRONIC_LISTEN_PORT=6385", "IRONIC_PRIVATE_PORT=unix",
		"IRONIC_TLS_SETUP=true", "IRONIC_HTPASSWD=set", "HTPASSWD_FILE=" + n.path("conf", "ironic", "htpasswd"),
		"IRONIC_CERT_FILE=" + n.path("private", "tls.crt"), "IRONIC_KEY_FILE=" + n.path("private", "tls.key"),
		"IRONIC_SSL_PROTOCOL=-ALL +TLSv1.2 +TLSv1.3", "IPXE_TLS_SETUP=false", "IRONIC_VMEDIA_TLS_SETUP=false",
		"HTTPD_SERVE_NODE_IMAGES=false", "IRONIC_HTTPD_LOGLEVEL=warn",
	}
	command.Stdin = strings.NewReader(template)
	output, err := command.Output()
	must(t, err)
	return string(output)
}

// apache returns the command of Apache in the root file system, with its libraries. Like the script of the image it
// first writes the passwords, and starts the web server after a while.
func (w *webServer) apache() []string {
	t := w.lab.t
	loaders, err := filepath.Glob(filepath.Join(w.root, "usr/lib/*-linux-gnu/ld-linux-*.so.*"))
	must(t, err)
	if len(loaders) != 1 {
		t.Fatalf("the root file system has the loaders %v, want one", loaders)
	}
	script := `cat "$0" >"$1"; echo the script runs; sleep 2; shift; exec "$@"`
	return []string{
		"/bin/sh", "-c", script, w.path("private", "htpasswd"), w.path("conf", "ironic", "htpasswd"),
		loaders[0], "--library-path", filepath.Dir(loaders[0]), filepath.Join(w.root, "usr/sbin/apache2"),
		"-DFOREGROUND", "-f", w.path("conf", "httpd.conf"),
	}
}

func (w *webServer) follow() []string {
	arguments := []string{"follow"}
	for _, name := range []string{"htpasswd", "tls.crt", "tls.key", "ca.crt"} {
		arguments = append(arguments, "--copy="+w.path("secret", name)+":"+w.path("private", name))
	}
	return append(arguments, "--certificate="+w.path("secret", "tls.crt"), "--key="+w.path("secret", "tls.key"),
		"--authority="+w.path("secret", "ca.crt"),
		"--passwords="+w.path("secret", "htpasswd")+":"+w.path("conf", "ironic", "htpasswd"), "--")
}

// secret replaces all files at once, as the kubelet does with a mounted Secret.
func (w *webServer) secret(issued material, passwords string) {
	t := w.lab.t
	w.versions++
	folder := fmt.Sprint("..", w.versions)
	must(t, os.MkdirAll(w.path("secret", folder), 0o755))
	for name, content := range map[string]string{
		"tls.crt": string(issued.certificate), "tls.key": string(issued.key), "ca.crt": string(issued.authority),
		"htpasswd": passwords,
	} {
		must(t, os.WriteFile(w.path("secret", folder, name), []byte(content), 0o600))
		if w.versions == 1 {
			must(t, os.Symlink(filepath.Join("..data", name), w.path("secret", name)))
		}
	}
	must(t, os.Symlink(folder, w.path("secret", "..data.new")))
	must(t, os.Rename(w.path("secret", "..data.new"), w.path("secret", "..data")))
}

// status returns the status of a request of a user, for a client that trusts these authorities.
func (w *webServer) status(user, password string, authorities ...[]byte) (int, error) {
	client := w.client()
	client.Timeout = 5 * time.Second
	transport, _ := client.Transport.(*http.Transport)
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	for _, authority := range authorities {
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(authority)
	}
	request, err := http.NewRequestWithContext(w.lab.t.Context(), http.MethodGet,
		"https://"+net.JoinHostPort(w.address4.String(), "6385")+"/v1/drivers", http.NoBody)
	must(w.lab.t, err)
	transport.TLSClientConfig.ServerName = vip4.String()
	request.SetBasicAuth(user, password)
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// startBehind serves a stub of Ironic on the socket of the web server.
func (w *webServer) startBehind() {
	t := w.lab.t
	behind := &http.Server{Handler: http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(writer).Encode(drivers(clusterID + "-" + w.name))
	})}
	go func(listener net.Listener) { _ = behind.Serve(listener) }(listenAt(t, w.path("ironic.sock")))
	t.Cleanup(func() { _ = behind.Close() })
	must(t, os.Chmod(w.path("ironic.sock"), 0o777))
}

// answers returns nothing once the user gets the status.
func (w *webServer) answers(want int, user, password string, authorities ...[]byte) func() string {
	return func() string {
		got, err := w.status(user, password, authorities...)
		if err != nil || got != want {
			return fmt.Sprintf("%s gets %d instead of %d: %v", user, got, want, err)
		}
		return ""
	}
}

func line(t *testing.T, user, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	must(t, err)
	return user + ":" + string(hash) + "\n"
}

// TestWebServerFollowsASecret rotates authority, certificate and credentials of the real web server. Clients with the
// old or the new ones are not interrupted, and a download completes.
func TestWebServerFollowsASecret(t *testing.T) {
	t.Parallel()
	n := newLab(t).addNode("n")
	addresses := []net.IP{net.ParseIP(vip4.String())}
	before, after := issue(t, addresses, time.Now().Add(time.Hour)), issue(t, addresses, time.Now().Add(time.Hour))
	w := n.startWebServer(before, line(t, "first", "one"))
	w.startBehind()

	// The web server does not run yet, and the script before it must not end.
	eventually(t, generous, "the script before the web server runs", func() string {
		return differs("the script runs", strings.TrimSpace(n.said.String()))
	})
	w.secret(before, line(t, "second", "two"))
	eventually(t, generous, "the web server has the second user", w.answers(http.StatusOK, "second", "two", before.authority))
	for user, want := range map[string]int{"first": http.StatusOK, "third": http.StatusUnauthorized} {
		if wrong := w.answers(want, user, "one", before.authority)(); wrong != "" {
			t.Error(wrong)
		}
	}

	download := w.download(t)
	stop, failed := w.useAllTheTime("second", "two", before.authority, after.authority)
	w.secret(after, line(t, "third", "three"))
	eventually(t, generous, "the web server has the new certificate",
		w.answers(http.StatusOK, "third", "three", after.authority))
	stop()
	if errs := failed(); errs != nil {
		t.Errorf("a client with old credentials failed: %v", errs)
	}
	download()
	_, err := w.status("second", "two", before.authority)
	var untrusted *tls.CertificateVerificationError
	if !errors.As(err, &untrusted) {
		t.Errorf("a client of the old authority gets %v", err)
	}

	// The key of another certificate would end the web server.
	w.secret(material{authority: after.authority, certificate: after.certificate, key: before.key}, line(t, "other", "other"))
	eventually(t, generous, "the log has the reason", func() string {
		if strings.Contains(n.said.String(), "private key does not match public key") {
			return ""
		}
		return "not yet"
	})
	eventually(t, generous, "the passwords are used with the old certificate",
		w.answers(http.StatusOK, "other", "other", after.authority))
	w.secret(after, line(t, "fourth", "four"))
	eventually(t, generous, "a Secret that fits is used", w.answers(http.StatusOK, "fourth", "four", after.authority))
	n.signal(syscall.SIGTERM)
	if err := <-w.ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestStalledClients opens more connections to the real web server of the VIP holder than it has workers. The holder
// keeps the VIP and the term of its Ironic, which answers on its socket.
func TestStalledClients(t *testing.T) {
	t.Parallel()
	l, n := aloneWith(t, func(n *node) {
		n.settings.Files.Socket = n.path("ironic.sock")
		n.use(n.settings)
		n.startWebServer(n.lab.issued, line(t, "ironic", "secret")).startBehind()
		for _, image := range n.settings.Images {
			must(t, os.WriteFile(n.path("html", "images", image), []byte("image"), 0o600))
			must(t, os.Chmod(n.path("html", "images", image), 0o644))
		}
	})
	began := func() string { return strings.Fields(n.file("term"))[0] }
	eventually(t, generous, "the term of the VIP begins", func() string {
		if began() == "0" {
			return "there is none"
		}
		return ""
	})
	before := began()
	stop := l.addNode("client").stall(450)
	eventually(t, generous, "the guard reports the web server", n.webServerIs("0"))
	throughout(t, 2*health.Patience, "Ironic answers", heldBy(n, n))
	if after := began(); after != before {
		t.Errorf("the term is %s, and was %s before", after, before)
	}
	stop()
	eventually(t, generous, "the web server answers again", n.webServerIs("1"))
}

// stall opens connections to the VIP that send only the first byte, until the returned function is called. Apache accepts
// no connection without data.
func (n *node) stall(count int) (stop func()) {
	const recordTypeHandshake = 22
	var connections []net.Conn
	stop = func() {
		for _, connection := range connections {
			_ = connection.Close()
		}
	}
	n.lab.t.Cleanup(stop)
	must(n.lab.t, within(n.space, func() error {
		for range count {
			connection, err := new(net.Dialer).DialContext(n.lab.t.Context(), "tcp", net.JoinHostPort(vip4.String(), "6385"))
			if err != nil {
				return err
			}
			connections = append(connections, connection)
			if _, err := connection.Write([]byte{recordTypeHandshake}); err != nil {
				return err
			}
		}
		return nil
	}))
	return stop
}

// webServerIs returns nothing once the guard reports this state of the web server.
func (n *node) webServerIs(want string) func() string {
	return func() string { return differs("metal3_guard_web_server_ok "+want, n.metric("web_server_ok")) }
}

// download begins to read a large file. The returned function reads the rest.
func (w *webServer) download(t *testing.T) (finish func()) {
	t.Helper()
	const size = 64 << 20
	file, err := os.Create(w.path("html", "images", "ironic-large"))
	must(t, err)
	must(t, errors.Join(file.Truncate(size), file.Close()))
	client := w.client()
	client.Timeout = 0
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet,
		"http://"+net.JoinHostPort(w.address4.String(), "6180")+"/images/ironic-large", http.NoBody)
	must(t, err)
	response, err := client.Do(request) //nolint:bodyclose // The function that is returned closes it.
	must(t, err)
	return func() {
		defer func() { _ = response.Body.Close() }()
		if count, err := io.Copy(io.Discard, response.Body); err != nil || count != size || response.StatusCode != http.StatusOK {
			t.Errorf("the download got %s, %d bytes and %v", response.Status, count, err)
		}
	}
}

// useAllTheTime sends requests with the credentials until it is stopped, and returns the errors.
func (w *webServer) useAllTheTime(user, password string, authorities ...[]byte) (stop func(), failed func() error) {
	ctx, cancel := context.WithCancel(w.lab.t.Context())
	ended := make(chan error, 1)
	go func() {
		var failures error
		for ctx.Err() == nil && failures == nil {
			if code, err := w.status(user, password, authorities...); err != nil || code != http.StatusOK {
				failures = fmt.Errorf("status %d: %w", code, err)
			}
		}
		ended <- failures
	}()
	return cancel, func() error { return <-ended }
}
