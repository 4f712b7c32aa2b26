package ironic

import "strings"

// Commands of the guard's image. One program does what would otherwise be shell in a manifest, and is tested as such:
//
//	run      --settings=FILE --cache=DIRECTORY [--listen=ADDRESS:PORT]
//	                                              hold the VIP, beside keepalived; runs until it is told to end
//	gate     --while-vip FLAGS -- PROGRAM         run a program while an address is on the interface
//	gate     --until-lost [--state=DIRECTORY] [--sweep=PATTERN]... [--renew=PATTERN]... [--again=NAME=value]...
//	         FLAGS -- PROGRAM
//	                                              run a program for one term of an address: delete what earlier ones
//	                                              left, freeze it while the address is away, kill it and fail when the
//	                                              term is over, and start it again, with the variables, when it ends in
//	                                              its term; with --while-vip as well, start it with the address
//	install  DIRECTORY                            copy itself, for containers of other images
//	prepare  --owner=USER:GROUP [--closed=PATH]... [--directory=PATH]... [--copy=FROM:TO]...
//	                                              make directories, and copies of files, that belong to a user, and let
//	                                              only the owner into the closed ones, unless they are read-only
//	follow   --copy=FROM:TO... --certificate=FROM --key=FROM --authority=FROM --passwords=FROM:TO -- PROGRAM
//	                                              run a web server; when files change, and fit together, copy them, have
//	                                              it reload its certificate, and write its passwords, with users who
//	                                              left the file for an hour
//	download --image=PATH... --record=PATH [--sha256=SUM]... [--stale=PATTERN]... [--scratch=PATH] -- PROGRAM
//	                                              run a program until the images are there, each with its sum if sums
//	                                              are given; not at all if they are, and have the sums given or recorded
//
// FLAGS are --interface=NAME or --interface-file=FILE, and --addresses=ADDRESS,ADDRESS; any of them counts. The file
// has the name. The gate waits for it, passes it to the program as PROVISIONING_INTERFACE, and puts it in the place of
// interfaceMark in the arguments. The directories above a copy are made as needed and belong to the user as well; a
// copy has the mode 0400.
//
// GuardProgram is where the program is in its own image, and tool where containers of other images find it.
const (
	GuardProgram = "/guard"
	tool         = toolsDirectory + "/guard"

	toolsDirectory = "/tools"
)

// owner is the user and group that the image of Ironic runs as.
const (
	userOfIronic  = 997
	groupOfIronic = 994
)

const (
	// interfaceFile is where the guard says which interface it chose.
	interfaceFile = StateDirectory + "/interface"

	// interfaceMark stands for the name of that interface.
	interfaceMark = "{interface}"
)

// private is a folder in memory with what only Ironic may read.
const private = "/private"

// passwordFile is where the web server of the image reads who may use the API.
const passwordFile = "/conf/ironic/htpasswd" //nolint:gosec // The name of a file, not what is in it.

// trustedAuthorities is where the containers find TrustedAuthoritiesFile.
const trustedAuthorities = "/certs/ca/trusted/tls.crt"

// copies lays credentials and certificates out as the image of Ironic wants them.
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
