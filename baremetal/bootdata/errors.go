package bootdata

import "fmt"

const (
	supportedFormats  = "cloud-config (also if no format is given) and ignition"
	supportedIgnition = "Ignition 2.0 to 2.4 and 3.0 to 3.6"
)

// UnknownFormatError says that the bootstrap data has an unsupported format or version. The user must choose another
// bootstrap provider or another format.
type UnknownFormatError struct {
	// Found is the format of the data.
	Found string
	// Supported are the supported formats.
	Supported string
}

// Error implements error.
func (e *UnknownFormatError) Error() string {
	return fmt.Sprintf("bootstrap data of %s is not supported; supported: %s", e.Found, e.Supported)
}

// UnparsableError says that the bootstrap data does not match its format, or that the machine would not read the files
// from it. The user must correct the input of the bootstrap provider.
type UnparsableError struct {
	// Format is the expected format, for example "cloud-config".
	Format string
	// Err is the cause. It names positions and keys, never content.
	Err error
}

// Error implements error.
func (e *UnparsableError) Error() string {
	return fmt.Sprintf("bootstrap data is not usable as %s: %v", e.Format, e.Err)
}

// Unwrap returns the cause.
func (e *UnparsableError) Unwrap() error { return e.Err }

func unparsable(format, message string, arguments ...any) error {
	return &UnparsableError{Format: format, Err: fmt.Errorf(message, arguments...)}
}

// ConflictError says that the bootstrap data of the user writes a path that belongs to an added file.
type ConflictError struct {
	// Path is the path of the file to add.
	Path string
	// Existing is the path of the user, as the user spelled it: Path, a directory above it, or a path below it.
	Existing string
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("bootstrap data writes %s already, which this provider requires for %s; remove it from the files "+
		"of the bootstrap configuration", e.Existing, e.Path)
}

// TooLargeError says that the bootstrap data with the files exceeds the limit of a Secret.
type TooLargeError struct {
	// Size, Before and Limit are bytes: with the files, without them, and permitted.
	Size, Before, Limit int
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("bootstrap data of %d bytes would grow to %d bytes with the files of this provider, but a "+
		"Secret holds %d; make the files of the bootstrap configuration smaller or fetch them at boot",
		e.Before, e.Size, e.Limit)
}

// InvalidFileError says that a file cannot be added to any bootstrap data. This is an error of the caller.
type InvalidFileError struct {
	// Path is the path of the file as given.
	Path string
	// Problem is the cause.
	Problem string
}

// Error implements error.
func (e *InvalidFileError) Error() string {
	return fmt.Sprintf("adding file %q: %s", e.Path, e.Problem)
}
