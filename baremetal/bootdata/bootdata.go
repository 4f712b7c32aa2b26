package bootdata

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

const (
	// CloudConfig is the format of all kinds of user data for cloud-init, and the default for an empty format.
	CloudConfig = "cloud-config"

	// Ignition is the format of Ignition configs.
	Ignition = "ignition"

	// Limit is the largest bootstrap data in bytes: the limit of a Secret, less 1 KiB for its other keys.
	Limit = corev1.MaxSecretSize - 1024
)

// File is a file on a machine. It belongs to root:root and replaces a file of the image at its path.
type File struct {
	// Path is absolute and clean, of letters, digits and the characters . _ / + @ = : , and -.
	Path string

	// Mode has permission bits only.
	Mode fs.FileMode

	// Content is any bytes, or none.
	Content []byte
}

// cleanPath rejects all characters with a meaning in YAML, JSON, jinja or a shell.
var cleanPath = regexp.MustCompile(`^/[A-Za-z0-9._/+@=:,-]+$`)

// Add returns the bootstrap data with the files in it. The format is the key format of the bootstrap Secret.
//
// The given files replace files of an earlier call. Without files, Add returns the data of the bootstrap provider.
//
// Add returns errors of the types UnknownFormatError, UnparsableError, ConflictError, TooLargeError and
// InvalidFileError.
func Add(data []byte, format string, files []File) ([]byte, error) {
	if err := validate(files); err != nil {
		return nil, err
	}
	var added []byte
	var err error
	switch format {
	case "", CloudConfig:
		added, err = addToUserData(data, files)
	case Ignition:
		added, err = addToIgnition(data, files)
	default:
		err = &UnknownFormatError{Found: fmt.Sprintf("format %q", format), Supported: supportedFormats}
	}
	if err != nil {
		return nil, err
	}
	if len(added) > Limit {
		return nil, &TooLargeError{Size: len(added), Before: len(data), Limit: Limit}
	}
	return added, nil
}

func validate(files []File) error {
	seen := map[string]bool{}
	for _, file := range files {
		problem := ""
		switch {
		case !cleanPath.MatchString(file.Path) || path.Clean(file.Path) != file.Path:
			problem = "the path is not absolute and clean, or has characters that are not allowed"
		case file.Mode&^fs.ModePerm != 0:
			problem = fmt.Sprintf("the mode %v has more than permission bits", file.Mode)
		case seen[file.Path]:
			problem = "the path is given twice"
		}
		if problem != "" {
			return &InvalidFileError{Path: file.Path, Problem: problem}
		}
		seen[file.Path] = true
	}
	return nil
}

// cut returns data without the bytes from start to end.
func cut(data []byte, start, end int) []byte {
	return append(bytes.Clone(data[:start]), data[end:]...)
}

// insert returns data with text at the offset.
func insert(data []byte, offset int, text string) []byte {
	grown := make([]byte, 0, len(data)+len(text))
	grown = append(grown, data[:offset]...)
	grown = append(grown, text...)
	return append(grown, data[offset:]...)
}
