// Package image makes the files that a lab is made from: the root file system of a machine, the container images of
// Kubernetes and Cluster API, and the image store that every machine starts with.
//
// Everything comes from Go modules and Debian packages. Each thing is cached in the folder of the testkit's programs,
// under a name that ends in a key of all that it is made from; it is made under another name first and then renamed, so
// that an interrupted run leaves nothing that counts, and a file lock lets one of several callers make it while the
// others wait. A folder of the cache may be removed whenever no lab runs:
//
//	lab-debian-KEY    an installation of Debian, by debootstrap
//	lab-programs-KEY  the small programs below this package
//	lab-root-KEY      a machine's root file system: Debian's files as hard links, and what the lab adds or replaces
//	lab-images-KEY    archives of the images that every lab needs
//	lab-image-KEY     an archive of an image that a caller adds
//	lab-store-KEY     the folder of a containerd that has imported all of these
//
// It refuses to download a container image: what is not built here does not exist in a lab. It refuses to change a
// machine's files once they are made, because they are the lower layer of file systems that are in use.
//
// The trade-off: the versions of Debian's packages are those of the day on which a cache was filled, so two caches may
// differ in them. Everything that is built from Go is pinned.
package image
