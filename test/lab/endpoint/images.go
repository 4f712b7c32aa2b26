package endpoint

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/endpoint/entry"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/image"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

const (
	// GuardImageName is the name of the image of GuardImage.
	GuardImageName = "lab.invalid/keepalived-guard:lab"
	// DownloaderImageName is the name of the image of DownloaderImage.
	DownloaderImageName = "lab.invalid/ramdisk-downloader:lab"

	// ironicRepository is the name of the image of IronicImage without its tag.
	ironicRepository = "lab.invalid/metal3-ironic"

	// ironicUser is the user and group of the containers, as in the upstream images.
	ironicUser = "997:994"

	// downloaderSource is the environment variable with the path of the script of metal3-io/ironic-ipa-downloader.
	downloaderSource = "IPA_DOWNLOADER"

	// guardProgram is the path of the guard in the pods.
	guardProgram = "/guard"
	// noUsers and noGroups are the files of an image without a root file system.
	noUsers, noGroups = "root:x:0:0:root:/:/usr/sbin/nologin\n", "root:x:0:\n"

	// bootPrograms is the folder of Debian with the files of tftpFolder.
	bootPrograms, tftpFolder = "/usr/lib/ipxe", "/tftpboot"
)

// IronicImage returns the image of the containers ironic, httpd, ramdisk-logs and dnsmasq. It has the scripts and
// templates of the checkout that IRONIC_IMAGE_SOURCE names, or without it the entry points of the lab. It builds
// missing parts of its root file system, which takes minutes the first time.
func IronicImage(ctx context.Context, progress io.Writer) (image.Image, error) {
	if source := os.Getenv(ironic.ImageSource); source != "" {
		return sourceImage(ctx, source, progress)
	}
	key, err := imitationKey()
	if err != nil {
		return image.Image{}, err
	}
	root, _, err := ironic.EnsureRoot(ctx, progress)
	if err != nil {
		return image.Image{}, err
	}
	checkout, err := binaries.Root()
	if err != nil {
		return image.Image{}, err
	}
	program, err := build(ctx, entryProgram(checkout))
	if err != nil {
		return image.Image{}, err
	}
	return image.Image{
		Names: []string{ironicRepository + ":" + key}, Key: key, User: ironicUser, Environment: ironicEnvironment(),
		Folder: root, Files: append(firmware(), entryPoints(program.path)...),
	}, nil
}

// sourceImage returns the image with the scripts and templates of a checkout of metal3-io/ironic-image.
func sourceImage(ctx context.Context, source string, progress io.Writer) (image.Image, error) {
	root, key, err := ironic.EnsureImageRoot(ctx, source, progress)
	if err != nil {
		return image.Image{}, err
	}
	environment := append(ironicEnvironment(), ironic.ImageOptions()...)
	key = hash(key, fmt.Sprint(firmware(), environment), ironicUser)
	return image.Image{
		Names: []string{ironicRepository + ":" + key}, Key: key, User: ironicUser, Environment: environment,
		Folder: root, Files: firmware(),
	}, nil
}

// ironicEnvironment is the environment of Python: the encoding, and a home folder.
func ironicEnvironment() []string { return []string{"LC_ALL=C.UTF-8", "HOME=/tmp"} }

// entryPoints are the entry points of the lab under the names of the scripts.
func entryPoints(program string) []image.File {
	// /bin is a symbolic link, which paths of files of an image must not contain.
	files := []image.File{{Path: "/usr" + entry.RunIronic, From: program}}
	for _, name := range []string{entry.RunHTTPD, entry.RunLogWatch} {
		files = append(files, image.File{Path: "/usr" + name, Link: path.Base(entry.RunIronic)})
	}
	return append(files, image.File{Path: entry.PartitionFile, Content: []byte("partition\n")})
}

// firmware is what machines boot from the network.
func firmware() []image.File {
	var files []image.File
	for _, firmware := range []struct{ name, debian string }{
		{"snponly-x86_64.efi", "snponly.efi"}, {"undionly.kpxe", "undionly.kpxe"},
	} {
		files = append(files, image.File{
			Path: path.Join(tftpFolder, firmware.name), Link: path.Join(bootPrograms, firmware.debian),
		})
	}
	return files
}

// GuardImage returns the image of the container guard and of the init containers: the guard of a checkout and
// keepalived of the Debian of the machines.
func GuardImage(ctx context.Context, checkout string, progress io.Writer) (image.Image, error) {
	debian, err := image.EnsureDebian(ctx, progress)
	if err != nil {
		return image.Image{}, err
	}
	files, err := image.Programs(debian, "keepalived")
	if err != nil {
		return image.Image{}, err
	}
	program, err := build(ctx, guardSource(checkout))
	if err != nil {
		return image.Image{}, err
	}
	return image.Image{
		Names: []string{GuardImageName}, Key: hash(debian, program.key, noUsers, noGroups),
		Entrypoint: []string{guardProgram},
		Files: append(files,
			image.File{Path: guardProgram, From: program.path},
			image.File{Path: "/etc/passwd", Content: []byte(noUsers)},
			image.File{Path: "/etc/group", Content: []byte(noGroups)},
		),
	}, nil
}

// DownloaderImage returns the image of the container download, with the archive of Ramdisk. It has the script that
// IPA_DOWNLOADER names, or without it an entry point of the lab.
func DownloaderImage(ctx context.Context, checkout string, progress io.Writer) (image.Image, error) {
	archive, err := Ramdisk()
	if err != nil {
		return image.Image{}, fmt.Errorf("packing the ramdisk: %w", err)
	}
	packed := image.Image{
		Names: []string{DownloaderImageName}, User: ironicUser, Entrypoint: []string{entry.GetResource},
		Environment: []string{"IPA_BASEURI=file://" + entry.RamdiskFolder},
		Files:       []image.File{{Path: path.Join(entry.RamdiskFolder, entry.RamdiskArchive), Content: archive}},
	}
	if script := os.Getenv(downloaderSource); script != "" {
		content, err := os.ReadFile(script)
		if err != nil {
			return image.Image{}, fmt.Errorf("reading the script of %s: %w", downloaderSource, err)
		}
		programs, err := shellPrograms(ctx, progress)
		packed.Key = hash(string(content), string(archive))
		packed.Files = append(append(packed.Files, programs...), image.File{Path: entry.GetResource, From: script})
		return packed, err
	}
	program, err := build(ctx, entryProgram(checkout))
	packed.Key = hash(program.key, string(archive))
	packed.Files = append(packed.Files, image.File{Path: entry.GetResource, From: program.path})
	return packed, err
}

// shellPrograms are the programs that the script of the downloader calls.
func shellPrograms(ctx context.Context, progress io.Writer) ([]image.File, error) {
	debian, err := image.EnsureDebian(ctx, progress)
	if err != nil {
		return nil, err
	}
	return image.Programs(debian, "bash", "awk", "basename", "cat", "chmod", "cp", "curl", "gzip", "ln", "mkdir",
		"mktemp", "mv", "rm", "tar", "tr")
}
