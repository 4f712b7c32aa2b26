// Package bootdata adds files to the bootstrap data of a machine: to cloud-init user data and to Ignition configs.
//
// The law is that the data of the bootstrap provider survives: its bytes stay where they are, with order, comments,
// anchors, number formats and encodings, and what this package adds is text between them. Adding twice gives the same
// bytes as adding once, and files that were added before are replaced. A path that the data writes already is an
// error, because one of the two files would be lost on the machine.
//
// # cloud-init
//
//	user data                                          where the files go
//	#cloud-config, write_files is a block list         into that list, as its first items
//	#cloud-config, no write_files                      into a new write_files before the first key
//	the same with a header "## template: jinja"        the same, as long as jinja only has {{ expressions }}
//	multi-part MIME                                    into one more part before the end
//	everything else that cloud-init understands        into a multi-part MIME around the data
//	any of these, compressed or in base64              as above, compressed or in base64 again
//
// A template with blocks ({% if %}, {% raw %}, {# #}) is no YAML before it is rendered, and a place in it may be inside
// a condition. A list with an anchor shows up at each of its aliases, a second write_files replaces the first, and a
// merge key (<<) loses against a key that is written out. In all these cases the text is left alone and wrapped. The
// same is done when the text with the files in it does not read as the text without them plus the files: each
// insertion is parsed again and compared.
//
// Measured with cloud-init 22.4, 25.1 and 26.2, which all behave alike:
//
//   - Parts merge in their order, and a later write_files replaces an earlier one by default. Hence the added part is
//     the last one and asks for dict(recurse_list)+list(append), which adds to the list of all earlier parts.
//   - A part of type text/plain is recognised by its first line, as user data without parts is: templates, scripts,
//     archives and includes keep their meaning, and a template is still rendered.
//   - A part that is neither base64 nor quoted-printable loses every character that is not ASCII and with it the whole
//     part. Hence wrapped data is base64.
//   - A template that fails to render takes its part along and nothing else.
//   - A write_files that is null swallows the added list, and makes the module write_files fail without it as well.
//     It is refused where it can be seen.
//   - Files written by cloud-init get missing directories with mode 0755. A directory with another mode is up to
//     whoever reads the files.
//
// The content of the added files is base64, so that jinja never sees it.
//
// A block of added files starts and ends with a comment and carries its checksum. The package replaces
// only an intact block at the place where it would put the block itself; an edited block belongs to the user.
//
// # Ignition
//
// Versions 2.0 to 2.4 and 3.0 to 3.6. The files go to the front of storage.files, as text; what is unknown stays as it
// is. Own files are recognised by the media type of their data URL, which Ignition ignores. A config that names another
// config as its replacement is refused: Ignition would drop the files.
//
// # What is not seen
//
// Paths that scripts write, that included or merged remote configs write, and paths that jinja puts together.
// A write_files of the operating system image (/etc/cloud) or of vendor data counts only if the user data has none;
// after adding files the user data has one. The data of the kubeadm bootstrap provider has one always.
//
// # Static pods and kubeadm
//
// Manifests of static pods may lie in /etc/kubernetes/manifests before kubeadm runs. kubeadm 1.36 does not look at the
// directory as a whole: init, and join of a control plane, refuse only kube-apiserver.yaml,
// kube-controller-manager.yaml, kube-scheduler.yaml and etcd.yaml. Releases before 1.23 refused to join when the
// directory was not empty. No command has to be added, and the configuration of kubeadm stays the user's.
package bootdata
