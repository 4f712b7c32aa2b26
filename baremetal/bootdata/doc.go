// Package bootdata adds files to the bootstrap data of a machine: to cloud-init user data and to Ignition configs.
//
// The bytes of the bootstrap provider stay unchanged: this package only inserts text between them. Order, comments,
// anchors, number formats and encodings stay too. Adding twice gives the same bytes as adding once, and replaces files
// that were added before. A path that the data already writes is an error, because the machine would lose one of the
// two files.
//
// # cloud-init
//
//	user data                                          where the files go
//	#cloud-config, write_files is a block list         into that list, as its first items
//	#cloud-config, no write_files                      into a new write_files before the first key
//	the same with a header "## template: jinja"        the same, if jinja has {{ expressions }} only
//	multi-part MIME                                    into one more part before the end
//	all other formats of cloud-init                    into a multi-part MIME around the data
//	any of these, compressed or in base64              as above, compressed or in base64 again
//
// A template with blocks ({% if %}, {% raw %}, {# #}) is not YAML before jinja renders it, and a position in it may be
// inside a condition. A list with an anchor appears at each alias, a second write_files replaces the first, and a merge
// key (<<) has a lower precedence than an explicit key. In all these cases the package wraps the text without a change.
// It does the same if the text with the files does not parse as the text without them plus the files: it parses and
// compares each insertion.
//
// Measured with cloud-init 22.4, 25.1 and 26.2, which behave alike:
//
//   - Parts merge in their order, and a later write_files replaces an earlier one by default. The added part is
//     therefore the last one. Its merge_how, dict(recurse_list)+list(append), appends to the list of earlier parts.
//   - The first line of a part of type text/plain sets its format, as in user data without parts: templates, scripts,
//     archives and includes keep their meaning, and jinja still renders a template.
//   - cloud-init loses a part with non-ASCII characters that is neither base64 nor quoted-printable. Wrapped data is
//     therefore base64.
//   - If a template fails to render, cloud-init loses only its part.
//   - With a null write_files, cloud-init ignores the added list, and its module write_files fails even without one.
//     The package returns an error for a null that it detects.
//   - cloud-init creates missing directories of files with mode 0755. Programs that read the files set another mode.
//
// The content of the added files is base64, so jinja does not change it.
//
// A block of added files starts and ends with a comment, and has a checksum. The package replaces only an intact block
// at the position of its own block. It treats an edited block as text of the user.
//
// # Ignition
//
// Versions 2.0 to 2.4 and 3.0 to 3.6. The files are inserted as text at the front of storage.files, and unknown keys
// stay unchanged. Own files have a media type in their data URL, which Ignition ignores. A config that names another
// config as its replacement is an error: Ignition would drop the files.
//
// # Limits
//
// The package does not detect paths that scripts write, that included or merged remote configs write, and that jinja
// composes. A write_files of the operating system image (/etc/cloud) or of vendor data counts only if the user data has
// none, and after adding files the user data has one. The data of the kubeadm bootstrap provider always has one.
//
// # Static pods and kubeadm
//
// Manifests of static pods may exist in /etc/kubernetes/manifests before kubeadm runs. kubeadm 1.36 does not check the
// directory as a whole: init, and join of a control plane, refuse only kube-apiserver.yaml,
// kube-controller-manager.yaml, kube-scheduler.yaml and etcd.yaml. Releases before 1.23 refused to join if the
// directory was not empty. No additional command is required, and the configuration of kubeadm stays unchanged.
package bootdata
