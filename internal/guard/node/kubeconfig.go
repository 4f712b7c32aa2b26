// Package node reads the annotations of the Node object of the guard with the credentials of the kubelet.
//
// It sends one GET for the metadata of one object, so it requires no client library and no further permissions. A
// file keeps the last answer, so that it survives a reboot while the API server is unavailable.
package node

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// kubeconfig has the fields that a kubeconfig of a kubelet uses.
type kubeconfig struct {
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string      `json:"name"`
		Cluster clusterPart `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string   `json:"name"`
		User userPart `json:"user"`
	} `json:"users"`
}

type clusterPart struct {
	Server    string `json:"server"`
	Authority string `json:"certificate-authority"`
	Data      string `json:"certificate-authority-data"`
}

type userPart struct {
	Certificate     string `json:"client-certificate"`
	CertificateData string `json:"client-certificate-data"`
	Key             string `json:"client-key"`
	KeyData         string `json:"client-key-data"`
}

// access is the address of the API server with credentials.
type access struct {
	server string
	tls    *tls.Config
}

// loadAccess reads the kubeconfig and the files that it names.
func loadAccess(path string) (access, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return access{}, err
	}
	var config kubeconfig
	if err := yaml.Unmarshal(content, &config); err != nil {
		return access{}, fmt.Errorf("reading kubeconfig %s: %w", path, err)
	}
	cluster, user, err := config.current()
	if err != nil {
		return access{}, fmt.Errorf("reading kubeconfig %s: %w", path, err)
	}
	folder := filepath.Dir(path)
	authority, err := material(folder, cluster.Authority, cluster.Data)
	if err != nil {
		return access{}, fmt.Errorf("reading the certificate authority of kubeconfig %s: %w", path, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return access{}, fmt.Errorf("kubeconfig %s has no certificate authority in PEM form", path)
	}
	pair, err := user.pair(folder)
	if err != nil {
		return access{}, fmt.Errorf("reading the client certificate of kubeconfig %s: %w", path, err)
	}
	return access{server: cluster.Server, tls: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair},
	}}, nil
}

func (k kubeconfig) current() (clusterPart, userPart, error) {
	for _, context := range k.Contexts {
		if context.Name != k.CurrentContext {
			continue
		}
		for _, cluster := range k.Clusters {
			if cluster.Name != context.Context.Cluster || cluster.Cluster.Server == "" {
				continue
			}
			for _, user := range k.Users {
				if user.Name == context.Context.User {
					return cluster.Cluster, user.User, nil
				}
			}
		}
	}
	return clusterPart{}, userPart{}, errors.New("its current context names no cluster with a server and user")
}

func (u userPart) pair(folder string) (tls.Certificate, error) {
	certificate, err := material(folder, u.Certificate, u.CertificateData)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := material(folder, u.Key, u.KeyData)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}

// material returns the inline data, or the content of the file. Files are relative to the kubeconfig.
func material(folder, file, inline string) ([]byte, error) {
	if inline != "" {
		return base64.StdEncoding.DecodeString(inline)
	}
	if file == "" {
		return nil, errors.New("neither data nor a file is given")
	}
	return os.ReadFile(within(folder, file))
}

func within(folder, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(folder, file)
}
