package bootdata

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// ownSource is the prefix of the data URLs of own files. Ignition ignores the media type.
	ownSource = "data:application/vnd.metal3.file;base64,"

	rootFilesystem = "root"

	// ignitionConfig is the name of the data in messages.
	ignitionConfig = "Ignition config"
)

var version = regexp.MustCompile(`^([23])\.([0-9])\.0$`)

// newestMinor of each major version of the Ignition specification that is supported.
var newestMinor = map[int]int{2: 4, 3: 6}

// ignitionFile is the JSON of own files. Without an owner, a file belongs to root.
type ignitionFile struct {
	Filesystem string           `json:"filesystem,omitempty"`
	Path       string           `json:"path"`
	Overwrite  bool             `json:"overwrite,omitempty"`
	Mode       uint32           `json:"mode"`
	Contents   ignitionContents `json:"contents"`
}

type ignitionContents struct {
	Source string `json:"source"`
}

// addToIgnition adds the files to an Ignition config.
func addToIgnition(data []byte, files []File) ([]byte, error) {
	config := bytes.TrimSpace(data)
	if !json.Valid(config) || config[0] != '{' {
		return nil, unparsable(ignitionConfig, "%w", jsonProblem(config))
	}
	major, err := ignitionVersion(config)
	if err != nil {
		return nil, err
	}
	added, err := withoutOwnFiles(config)
	if err == nil && len(files) > 0 {
		added, err = addFiles(added, files, major)
	}
	if err != nil {
		return nil, err
	}
	// White space around the object stays unchanged.
	start := bytes.IndexByte(data, '{')
	return append(append(bytes.Clone(data[:start]), added...), data[start+len(config):]...), nil
}

func addFiles(config []byte, files []File, major int) ([]byte, error) {
	written, err := writtenByIgnition(config)
	if err != nil {
		return nil, err
	}
	if err := written.conflicts(files); err != nil {
		return nil, err
	}
	texts := make([]string, 0, len(files))
	for _, file := range files {
		text, err := ignitionText(file, major)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return insertFiles(config, strings.Join(texts, ","))
}

func jsonProblem(data []byte) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	return errors.New("it is not an object")
}

// ignitionText renders a file. In version 2, a file replaces an existing one by default. Version 3 requires a setting.
func ignitionText(file File, major int) (string, error) {
	own := ignitionFile{
		Path:     file.Path,
		Mode:     uint32(file.Mode),
		Contents: ignitionContents{Source: ownSource + base64.StdEncoding.EncodeToString(file.Content)},
	}
	if major == 2 {
		own.Filesystem = rootFilesystem
	} else {
		own.Overwrite = true
	}
	text, err := json.Marshal(own)
	if err != nil {
		return "", fmt.Errorf("rendering file %s: %w", file.Path, err)
	}
	return string(text), nil
}

// ignitionVersion returns the major version of a config to which files can be added.
func ignitionVersion(data []byte) (int, error) {
	var config struct {
		Ignition struct {
			Version string `json:"version"`
			Config  struct {
				Replace struct {
					Source *string `json:"source"`
				} `json:"replace"`
			} `json:"config"`
		} `json:"ignition"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return 0, &UnparsableError{Format: ignitionConfig, Err: err}
	}
	found := version.FindStringSubmatch(config.Ignition.Version)
	if found == nil {
		return 0, unknownIgnition(config.Ignition.Version)
	}
	major, minor := int(found[1][0]-'0'), int(found[2][0]-'0')
	if minor > newestMinor[major] {
		return 0, unknownIgnition(config.Ignition.Version)
	}
	if source := config.Ignition.Config.Replace.Source; source != nil && *source != "" {
		return 0, unparsable(ignitionConfig, "ignition.config.replace names another config, for which Ignition drops "+
			"this one with all its files; use merge (append in version 2) instead")
	}
	return major, nil
}

func unknownIgnition(found string) error {
	return &UnknownFormatError{Found: "Ignition version " + strconv.Quote(found), Supported: supportedIgnition}
}

// insertFiles puts rendered files in front of the files of the config.
func insertFiles(data []byte, texts string) ([]byte, error) {
	whole := span{0, len(data)}
	storage, found, err := member(data, whole, "storage")
	if err != nil {
		return nil, err
	}
	switch {
	case !found:
		return putMember(data, whole, `"storage":{"files":[`+texts+`]}`), nil
	case storage.isNull(data):
		return putValue(data, storage, `{"files":[`+texts+`]}`), nil
	}
	files, found, err := member(data, storage, "files")
	switch {
	case err != nil:
		return nil, err
	case !found:
		return putMember(data, storage, `"files":[`+texts+`]`), nil
	case files.isNull(data):
		return putValue(data, files, `[`+texts+`]`), nil
	}
	return insert(data, files.start+1, texts+comma(data, files)), nil
}

// putValue puts a value in the place of another.
func putValue(data []byte, old span, value string) []byte {
	return insert(cut(data, old.start, old.end), old.start, value)
}

// putMember puts a key with its value in front of an object.
func putMember(data []byte, object span, text string) []byte {
	return insert(data, object.start+1, text+comma(data, object))
}

// comma returns the comma after text in front of an object or a list, or nothing if the object or list is empty.
func comma(data []byte, collection span) string {
	if len(bytes.TrimSpace(data[collection.start+1:collection.end-1])) == 0 {
		return ""
	}
	return ","
}

// withoutOwnFiles is the inverse of insertFiles, except that a storage or files that were missing before stay, empty.
func withoutOwnFiles(data []byte) ([]byte, error) {
	entries, err := storageEntries(data, "files")
	if err != nil {
		return nil, err
	}
	for _, entry := range slices.Backward(entries) {
		var file ignitionFile
		if err := json.Unmarshal(data[entry.start:entry.end], &file); err != nil ||
			!strings.HasPrefix(file.Contents.Source, ownSource) {
			continue
		}
		data = cutElement(data, entry)
	}
	return data, nil
}

// cutElement removes an element of a list with one comma beside it.
func cutElement(data []byte, element span) []byte {
	rest := bytes.TrimLeft(data[element.end:], " \t\r\n")
	if len(rest) > 0 && rest[0] == ',' {
		return cut(data, element.start, len(data)-len(rest)+1)
	}
	before := bytes.TrimRight(data[:element.start], " \t\r\n")
	if before[len(before)-1] == ',' {
		return cut(data, len(before)-1, element.end)
	}
	return cut(data, element.start, element.end)
}

// writtenByIgnition returns the paths of files, links and directories.
func writtenByIgnition(data []byte) (paths, error) {
	var written paths
	for _, key := range []string{"files", "links", "directories"} {
		entries, err := storageEntries(data, key)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			var node struct {
				Filesystem string `json:"filesystem"`
				Path       string `json:"path"`
			}
			if err := json.Unmarshal(data[entry.start:entry.end], &node); err != nil {
				return nil, unparsable(ignitionConfig, "reading storage.%s: %w", key, err)
			}
			if node.Path != "" && (node.Filesystem == "" || node.Filesystem == rootFilesystem) {
				written = append(written, writtenPath{path: node.Path, directory: key == "directories"})
			}
		}
	}
	return written, nil
}

// storageEntries returns the positions of the elements of a list in storage.
func storageEntries(data []byte, key string) ([]span, error) {
	storage, found, err := member(data, span{0, len(data)}, "storage")
	if err != nil || !found || storage.isNull(data) {
		return nil, err
	}
	list, found, err := member(data, storage, key)
	if err != nil || !found || list.isNull(data) {
		return nil, err
	}
	return elements(data, list, "storage."+key)
}
