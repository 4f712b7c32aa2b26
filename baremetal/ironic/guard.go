package ironic

import "strings"

// The containers run commands of the guard instead of shell scripts: see the usage in internal/guard/command.go, and
// `guard COMMAND --help` for the flags.
//
// GuardProgram is the path of the program in its image, and tool its path in containers of other images.
const (
	GuardProgram = "/guard"
	tool         = toolsDirectory + "/guard"

	toolsDirectory = "/tools"
)

// User and group of the image of Ironic.
const (
	userOfIronic  = 997
	groupOfIronic = 994
)

const (
	// interfaceFile has the name of the interface that the guard chose.
	interfaceFile = StateDirectory + "/interface"

	// interfaceMark stands for the name of that interface.
	interfaceMark = "{interface}"

	// folderMark stands for the first directory of a gate that has files.
	folderMark = "{folder}"
)

// private is a folder in memory that only Ironic may read.
const private = "/private"

// passwordFile is the file with the users of the API, as the web server of the image reads it.
const passwordFile = "/conf/ironic/htpasswd" //nolint:gosec // The path of a file, not a password.

// databaseFolder is the folder of the database in the container of Ironic, as the image names it.
const databaseFolder = "/data/db"

// trustedAuthorities is the path of TrustedAuthoritiesFile in the containers.
const trustedAuthorities = "/certs/ca/trusted/tls.crt"

// copies returns the flags that copy credentials and certificates to the paths of the image of Ironic.
func (c Config) copies() []string {
	type pair struct{ from, to string }
	pairs := []pair{
		{HtpasswdFile, "auth/ironic/htpasswd"},
		{CertificateFile, "certs/ironic/tls.crt"},
		{KeyFile, "certs/ironic/tls.key"},
	}
	if !c.Settings.PlainVirtualMedia {
		pairs = append(pairs, pair{CertificateFile, "certs/vmedia/tls.crt"}, pair{KeyFile, "certs/vmedia/tls.key"})
	}
	pairs = append(pairs, pair{AuthorityFile, "certs/ca/ironic/tls.crt"})
	if c.Settings.BMCAuthorities {
		pairs = append(pairs, pair{BMCAuthoritiesFile, "certs/ca/bmc/ca.crt"})
	}
	if c.Settings.TrustedAuthorities {
		pairs = append(pairs, pair{TrustedAuthoritiesFile, strings.TrimPrefix(trustedAuthorities, "/")})
	}
	arguments := make([]string, len(pairs))
	for i, pair := range pairs {
		arguments[i] = "--copy=" + onNode(pair.from) + ":" + private + "/" + pair.to
	}
	return arguments
}
