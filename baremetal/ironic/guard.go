package ironic

import "strings"

// Commands of the guard's image. One tested program replaces shell scripts in the manifests:
//
//	run      --settings=FILE --cache=DIRECTORY [--listen=ADDRESS:PORT]
//	                                              run keepalived and hold the VIP until SIGTERM
//	gate     --while-vip [--folder=DIRECTORY]... FLAGS -- PROGRAM
//	                                              run a program while the node holds a VIP; in its arguments, folderMark
//	                                              stands for the first directory that has files, or for the last one
//	gate     --until-lost [--state=DIRECTORY] [--sweep=PATTERN]... [--renew=PATTERN]... [--again=NAME=value]...
//	         FLAGS -- PROGRAM
//	                                              run a program for one term of the VIP: delete files of earlier terms,
//	                                              stop the program while the VIP is away, kill it and fail at the end of
//	                                              the term, and start it again, with the variables, when it ends in its
//	                                              term; with --while-vip, start it when the node gets the VIP; with
//	                                              --until-lost=false, for a node without a guard, only delete the files
//	prepare  --install=DIRECTORY [--owner=USER:GROUP] [--closed=PATH]... [--directory=PATH]... [--copy=FROM:TO]...
//	                                              copy the program, for containers of other images, create directories
//	                                              and copies of files for a user, and remove the permissions of others
//	                                              from closed paths, unless they are read-only
//	follow   --copy=FROM:TO... --certificate=FROM --key=FROM --authority=FROM --passwords=FROM:TO -- PROGRAM
//	                                              run a web server; when files change, and belong together, copy them,
//	                                              reload the web server, and write its passwords, with users that were
//	                                              removed from the file for another hour
//	download --image=PATH... --record=PATH [--sha256=SUM]... [--stale=PATTERN]... [--scratch=PATH] -- PROGRAM
//	                                              run a program until the images exist with the given sums; do not run
//	                                              it if they exist with the given or recorded sums
//
// FLAGS are --interface=NAME or --interface-file=FILE, and --addresses=ADDRESS,ADDRESS, of which one is sufficient. The
// gate waits for the file, which has the name. It passes the name to the program as PROVISIONING_INTERFACE, and
// replaces interfaceMark in the arguments by it. Missing parent directories of a copy are created for the user. A copy
// has the mode 0400.
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
