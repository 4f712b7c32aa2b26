package entry

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

// rendered are the variables of the pods of this provider.
func rendered() map[string]string {
	return map[string]string{
		"IRONIC_CONDUCTOR_HOST": "3f9c1a7e-node-1", "IRONIC_IP": "172.22.0.2", "PROVISIONING_INTERFACE": "eth0",
		"LISTEN_ALL_INTERFACES": "true", "IRONIC_ACCESS_PORT": "6385", "IRONIC_LISTEN_PORT": "6385", "HTTP_PORT": "6180",
		"VMEDIA_TLS_PORT": "6183", "IRONIC_REVERSE_PROXY_SETUP": "true", "IRONIC_PRIVATE_PORT": "unix",
		"IRONIC_USE_MARIADB": "false", "IRONIC_EXPOSE_JSON_RPC": "false", "NUMWORKERS": "1",
	}
}

var secure = []string{certificateFile, mediaCertFile, htpasswdFile}

func read(variables map[string]string, files []string) (Settings, error) {
	return ReadSettings(func(name string) string { return variables[name] },
		func(name string) bool { return slices.Contains(files, name) })
}

func TestRender(t *testing.T) {
	for name, test := range map[string]struct {
		change map[string]string
		files  []string
	}{
		"pod": {nil, secure},
		"one-address": {map[string]string{
			"IRONIC_IP": "fd00:172:22::2", "LISTEN_ALL_INTERFACES": "false", "IRONIC_LISTEN_PORT": "16385", "NUMWORKERS": "",
		}, secure},
		"without-web-server": {map[string]string{"IRONIC_REVERSE_PROXY_SETUP": ""}, []string{certificateFile, htpasswdFile}},
		"open":               {map[string]string{"IRONIC_REVERSE_PROXY_SETUP": "false", "IRONIC_CONDUCTOR_HOST": ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			variables := rendered()
			maps.Copy(variables, test.change)
			settings, err := read(variables, test.files)
			if err != nil {
				t.Fatal(err)
			}
			for file, render := range map[string]func(Settings) ([]byte, error){
				"ironic.conf": RenderIronic, "httpd.conf": RenderHTTPD,
			} {
				content, err := render(settings)
				if err != nil {
					t.Fatal(err)
				}
				golden.Equal(t, path.Join(name, file), content)
			}
		})
	}
}

func TestReadSettingsRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change map[string]string
		files  []string
		want   string
	}{
		"no address":               {map[string]string{"IRONIC_IP": ""}, secure, "IRONIC_IP"},
		"an address with a prefix": {map[string]string{"IRONIC_IP": "172.22.0.2/24"}, secure, "IRONIC_IP"},
		"to wait":                  {map[string]string{"PROVISIONING_IP": "172.22.0.2"}, secure, "PROVISIONING_IP"},
		"a database server":        {map[string]string{"IRONIC_USE_MARIADB": "true"}, secure, "IRONIC_USE_MARIADB"},
		"several conductors":       {map[string]string{"IRONIC_EXPOSE_JSON_RPC": "True"}, secure, "IRONIC_EXPOSE_JSON_RPC"},
		"users in a variable":      {map[string]string{"IRONIC_HTPASSWD": "a:b"}, secure, "IRONIC_HTPASSWD"},
		"an invalid port":          {map[string]string{"HTTP_PORT": "http"}, secure, "HTTP_PORT"},
		"a port that is too large": {map[string]string{"IRONIC_LISTEN_PORT": "65536"}, secure, "IRONIC_LISTEN_PORT"},
		"neither true nor false":   {map[string]string{"LISTEN_ALL_INTERFACES": "1"}, secure, "LISTEN_ALL_INTERFACES"},
		"a port behind the proxy":  {map[string]string{"IRONIC_PRIVATE_PORT": "6388"}, secure, "IRONIC_PRIVATE_PORT"},
		"no certificate":           {nil, []string{htpasswdFile}, certificateFile},
		"no users":                 {nil, []string{certificateFile}, htpasswdFile},
		"a name of two lines":      {map[string]string{"IRONIC_CONDUCTOR_HOST": "a\nb"}, secure, "IRONIC_CONDUCTOR_HOST"},
		"a name that is expanded":  {map[string]string{"IRONIC_CONDUCTOR_HOST": "$my_ip"}, secure, "IRONIC_CONDUCTOR_HOST"},
	} {
		t.Run(name, func(t *testing.T) {
			variables := rendered()
			maps.Copy(variables, test.change)
			if _, err := read(variables, test.files); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that names %s", err, test.want)
			}
		})
	}
}
