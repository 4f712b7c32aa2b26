package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

func root(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	files, err := generated(root(t))
	if err != nil {
		t.Fatal(err)
	}
	again, err := generated(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale: run go run ./hack/ironicmanifests: -want, +got:\n%s", name, diff)
		}
		if !bytes.Equal(want, again[name]) {
			t.Errorf("%s is another one each time", name)
		}
	}
}

func TestLocate(t *testing.T) {
	cases := map[string]struct {
		reason  string
		text    string
		want    spot
		is      bool
		wantErr string
	}{
		"Whole":   {reason: "a value on its own", text: placeholderIP, want: spot{origin: origin{name: "PROVISIONING_IP"}}, is: true},
		"Flag":    {reason: "a value of a flag", text: "--interface=" + placeholderInterface, want: spot{origin{name: "PROVISIONING_INTERFACE"}, part{"=", 1}}, is: true},
		"Name":    {reason: "a name that begins with it", text: placeholderID + "-$(NODE_NAME)", want: spot{origin{name: "CLUSTER_ID"}, part{"-$", 0}}, is: true},
		"Prefix":  {reason: "the length of the prefix", text: "27", want: spot{origin: origin{"PROVISIONING_CIDR", true}}, is: true},
		"Nothing": {reason: "what has nothing to do with a value", text: "node"},
		"URL":     {reason: "a value within a text would stay as it is in everybody's cluster", text: "http://" + placeholderIP + ":6180", wantErr: "no replacement reaches PROVISIONING_IP"},
		"List":    {reason: "the second of two values would stay", text: "--addresses=" + placeholderIP + ",fd00::2", wantErr: "no replacement reaches PROVISIONING_IP"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, is, err := locate(tc.text)
			if got != tc.want || is != tc.is {
				t.Errorf("%s: got %v %v, want %v %v", tc.reason, got, is, tc.want, tc.is)
			}
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("%s: got error %v, want %q", tc.reason, err, tc.wantErr)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root(t), valuesFile))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ reason, old, new, want string }{
		"AsItIs":   {reason: "the values in the checkout can be used"},
		"Outside":  {reason: "an address outside of its network", old: "PROVISIONING_IP=172.22.0.2", new: "PROVISIONING_IP=10.0.0.2", want: "is not in its network"},
		"RouterID": {reason: "a router ID that others use", old: "VIRTUAL_ROUTER_ID=193", new: "VIRTUAL_ROUTER_ID=1", want: "use 3 to 255"},
		"NoNumber": {reason: "a router ID that is none", old: "VIRTUAL_ROUTER_ID=193", new: "VIRTUAL_ROUTER_ID=", want: "use a number"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, valuesFile)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.Replace(content, []byte(tc.old), []byte(tc.new), 1), 0o600); err != nil {
				t.Fatal(err)
			}
			var printed bytes.Buffer
			err := check(folder, &printed)
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got error %v, want %q", tc.reason, err, tc.want)
			}
			if err == nil && !strings.Contains(printed.String(), "virtualRouterID: 193") {
				t.Errorf("%s: printed %s", tc.reason, printed.String())
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	var printed bytes.Buffer
	arguments := []string{"--namespace", "one", "--namespace", "two"}
	if err := credentials(arguments, bytes.NewReader(make([]byte, passwordBytes)), &printed); err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(strings.TrimPrefix(printed.String(), "---\n"), "---\n")
	var found []corev1.Secret
	for _, document := range documents {
		secret := corev1.Secret{}
		if err := yaml.UnmarshalStrict([]byte(document), &secret); err != nil {
			t.Fatal(err)
		}
		found = append(found, secret)
	}
	if len(found) != 2 || found[0].Namespace != "one" || found[1].Namespace != "two" || found[0].Name != credentialName {
		t.Fatalf("got %d Secrets: %s", len(found), documents)
	}
	if diff := cmp.Diff(found[0].Data, found[1].Data); diff != "" {
		t.Errorf("the Secrets differ:\n%s", diff)
	}
	data := found[0].Data
	user, hash, _ := bytes.Cut(bytes.TrimSpace(data["htpasswd"]), []byte(":"))
	if !bytes.Equal(user, data["username"]) || bcrypt.CompareHashAndPassword(hash, data["password"]) != nil {
		t.Error("htpasswd does not admit the user with the password")
	}
	if err := credentials(nil, bytes.NewReader(nil), &printed); err == nil {
		t.Error("without a namespace nobody could use the credentials")
	}
}
