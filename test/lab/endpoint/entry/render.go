package entry

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"
)

//go:embed templates/*.tmpl
var templateFiles embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(templateFiles, "templates/*.tmpl"))

// modules are the modules of the web server that its configuration requires.
var modules = []string{
	"mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "autoindex", "dir", "proxy",
	"proxy_http", "setenvif", "ssl",
}

// RenderIronic renders ironic.conf.
func RenderIronic(settings Settings) ([]byte, error) { return render("ironic.conf.tmpl", settings) }

// RenderHTTPD renders httpd.conf.
func RenderHTTPD(settings Settings) ([]byte, error) { return render("httpd.conf.tmpl", settings) }

func render(name string, settings Settings) ([]byte, error) {
	var content bytes.Buffer
	err := templates.ExecuteTemplate(&content, name, struct {
		Settings
		Modules []string
		Files   map[string]string
	}{settings, modules, map[string]string{
		"shared": sharedFolder, "data": dataFolder, "socket": socketFile, "database": databaseFile, "users": htpasswdFile,
		"partition": PartitionFile, "certificate": certificateFile, "key": keyFile,
		"mediaCertificate": mediaCertFile, "mediaKey": mediaKeyFile,
	}})
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", name, err)
	}
	return content.Bytes(), nil
}
