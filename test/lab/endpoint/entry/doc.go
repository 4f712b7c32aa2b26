// Package entry has the entry points of the lab's images of the Ironic endpoint, with the names, the environment and
// the files of the pods and the upstream images.
//
//	/bin/runironic       writes ironic.conf, empties the database and executes Ironic, API and conductor in one process
//	/bin/runhttpd        writes httpd.conf and executes Apache httpd: images, and the API with TLS and credentials
//	/bin/runlogwatch.sh  prints and removes the logs of ramdisks
//	/usr/local/bin/get-resource.sh   downloads kernel and ramdisk into the folder that httpd serves
//
// It imports only the standard library, because the key of the images is computed from its own files.
//
// It returns an error for an environment with features that the lab lacks, and for configurations without credentials.
// Options of Ironic are set as upstream, by OS_<SECTION>__<OPTION>, which Ironic reads itself.
package entry

// Programs by their names in the pods and the upstream images.
const (
	RunIronic   = "/bin/runironic"
	RunHTTPD    = "/bin/runhttpd"
	RunLogWatch = "/bin/runlogwatch.sh"
	GetResource = "/usr/local/bin/get-resource.sh"
)

const (
	// RamdiskFolder is the folder of RamdiskArchive in the image of the downloader, with RamdiskKernel and
	// RamdiskInitramfs in it. It is the default for IPA_BASEURI.
	RamdiskFolder = "/usr/share/lab-ramdisk"
	// RamdiskArchive is the default name of the archive on a server.
	RamdiskArchive = ramdiskName + archiveSuffix
	// RamdiskKernel is the kernel in RamdiskArchive.
	RamdiskKernel = ramdiskName + ".kernel"
	// RamdiskInitramfs is the initramfs in RamdiskArchive.
	RamdiskInitramfs = ramdiskName + ".initramfs"

	// PartitionFile is the EFI system partition that Ironic writes to media.
	PartitionFile = "/usr/share/lab-ramdisk/esp.img"

	ramdiskName   = "ipa-centos9-master"
	archiveSuffix = ".tar.gz"
)

// Files and folders of the containers.
const (
	sharedFolder = "/shared"
	// dataFolder is in the layer of the container, so it is deleted with the container.
	dataFolder = "/tmp/data"

	socketFile       = sharedFolder + "/ironic.sock"
	databaseFile     = dataFolder + "/ironic.sqlite"
	ironicConfigFile = dataFolder + "/ironic.conf"
	httpdConfigFile  = dataFolder + "/httpd.conf"

	htpasswdFile    = "/auth/ironic/htpasswd" //nolint:gosec // It is the name of a file.
	certificateFile = "/certs/ironic/tls.crt"
	keyFile         = "/certs/ironic/tls.key"
	mediaCertFile   = "/certs/vmedia/tls.crt"
	mediaKeyFile    = "/certs/vmedia/tls.key"
)
