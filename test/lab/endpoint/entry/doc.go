// Package entry holds the entry points of the lab's images of the Ironic endpoint: what runs under the names that the
// pods and the upstream images know, with the same environment and the same files.
//
//	/bin/runironic       writes ironic.conf, empties the database and becomes Ironic, API and conductor in one process
//	/bin/runhttpd        writes httpd.conf and becomes Apache httpd: images, and the API with TLS and credentials
//	/bin/runlogwatch.sh  prints what ramdisks sent to Ironic, and removes it
//	/usr/local/bin/get-resource.sh   downloads kernel and ramdisk into the folder that httpd serves
//
// It imports nothing but the standard library, because the key of the images is made from its own files.
//
// It refuses an environment that asks for what the lab does not have, and configurations that require no
// credentials. Options of Ironic are set as upstream, by OS_<SECTION>__<OPTION>: Ironic reads these
// itself.
package entry

// The programs as the pods and the upstream images name them.
const (
	RunIronic   = "/bin/runironic"
	RunHTTPD    = "/bin/runhttpd"
	RunLogWatch = "/bin/runlogwatch.sh"
	GetResource = "/usr/local/bin/get-resource.sh"
)

const (
	// RamdiskFolder is where the image of the downloader has RamdiskArchive, which holds RamdiskKernel and
	// RamdiskInitramfs. It is downloaded from there where IPA_BASEURI is not set.
	RamdiskFolder = "/usr/share/lab-ramdisk"
	// RamdiskArchive is the name that the downloader asks a server for, where no variable says otherwise.
	RamdiskArchive = ramdiskName + archiveSuffix
	// RamdiskKernel is one of the files of RamdiskArchive.
	RamdiskKernel = ramdiskName + ".kernel"
	// RamdiskInitramfs is the other one.
	RamdiskInitramfs = ramdiskName + ".initramfs"

	// PartitionFile is what Ironic puts on media as the EFI system partition.
	PartitionFile = "/usr/share/lab-ramdisk/esp.img"

	ramdiskName   = "ipa-centos9-master"
	archiveSuffix = ".tar.gz"
)

// Files and folders of the containers.
const (
	sharedFolder = "/shared"
	// dataFolder is in the layer of the container, so it ends with the container.
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
