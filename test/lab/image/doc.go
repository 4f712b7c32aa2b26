// Package image builds the files of a lab: the root file system of a machine, the container images of Kubernetes and
// Cluster API, and the initial image store of machines.
//
// All inputs are Go modules and Debian packages. The cache, in the folder of the testkit's programs, keeps each thing
// under a name with a key of its inputs. A build uses another name first, so that an interrupted one never counts. A
// file lock lets one caller build while others wait. Folders of the cache may be removed while no lab runs:
//
//	lab-debian-KEY    an installation of Debian, by debootstrap
//	lab-programs-KEY  the small programs below this package
//	lab-root-KEY      a machine's root file system: Debian's files as hard links, and the files of the lab
//	lab-images-KEY    archives of the images of every lab
//	lab-image-KEY     an archive of an additional image
//	lab-store-KEY     the folder of a containerd that has imported all of these
//
// The package downloads no container image: a lab has only images that are built here. Files of a machine do not change
// after their build, because they are the lower layer of file systems in use.
//
// The versions of Debian packages are those of the day of the build, so caches may differ. All Go programs are pinned.
package image
