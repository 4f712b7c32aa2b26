package main

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
)

const (
	userName      = "ironic"
	passwordBytes = 24
)

// credentials prints the same Secret for several namespaces: those of Ironic, its clients and the Metal3Cluster. It
// stores nothing, so a second run prints another password.
func credentials(arguments []string, random io.Reader, output io.Writer) error {
	var namespaces []string
	flags := flag.NewFlagSet("credentials", flag.ContinueOnError)
	flags.Func("namespace", "namespace of a Secret; may be repeated", func(value string) error {
		namespaces = append(namespaces, value)
		return nil
	})
	user := flags.String("username", userName, "name of the user; with a new name, old credentials stay valid for an hour")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	switch {
	case len(namespaces) == 0 || flags.NArg() > 0:
		return errors.New("--namespace is required for each namespace with the credentials, without arguments")
	case *user == "" || strings.ContainsFunc(*user, func(r rune) bool { return r == ':' || unicode.IsSpace(r) }):
		return fmt.Errorf("--username is %q; use a name without colons and spaces", *user)
	}
	raw := make([]byte, passwordBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return fmt.Errorf("generating a password: %w", err)
	}
	password := []byte(base64.RawURLEncoding.EncodeToString(raw))
	hash, err := secrets.HashPassword(password)
	if err != nil {
		return fmt.Errorf("hashing a password: %w", err)
	}
	for _, namespace := range namespaces {
		text, err := yaml.Marshal(corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: credentialName, Namespace: namespace},
			Type:       corev1.SecretTypeOpaque,
			Data: map[string][]byte{
				secrets.UsernameKey: []byte(*user),
				secrets.PasswordKey: password,
				secrets.HtpasswdKey: fmt.Appendf(nil, "%s:%s\n", *user, hash),
			},
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(output, "---\n%s", text)
	}
	return nil
}
