package bootdata

import (
	"bytes"
	"encoding/json"
	"strings"
)

// span is the position of a value in a JSON document: from its first byte to after its last byte.
type span struct{ start, end int }

func (s span) isNull(data []byte) bool { return string(data[s.start:s.end]) == "null" }

// member returns the position of the value of a key in an object. Like Go's decoder, which Ignition uses, it ignores
// the case of a key. A duplicate key is an error: readers use different ones.
func member(data []byte, object span, key string) (span, bool, error) {
	decoder, entered := enter(data, object, '{')
	if !entered {
		return span{}, false, unparsable(ignitionConfig, "the parent of %q is not an object", key)
	}
	var value span
	found := false
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return span{}, false, &UnparsableError{Format: ignitionConfig, Err: err}
		}
		next, err := nextValue(decoder, object.start)
		if err != nil {
			return span{}, false, err
		}
		if text, isText := name.(string); !isText || !strings.EqualFold(text, key) {
			continue
		}
		if found {
			return span{}, false, unparsable(ignitionConfig, "key %q occurs twice", key)
		}
		value, found = next, true
	}
	return value, found, nil
}

// elements returns the positions of the elements of a list. The name is for messages.
func elements(data []byte, list span, name string) ([]span, error) {
	decoder, entered := enter(data, list, '[')
	if !entered {
		return nil, unparsable(ignitionConfig, "%s is not a list", name)
	}
	var found []span
	for decoder.More() {
		next, err := nextValue(decoder, list.start)
		if err != nil {
			return nil, err
		}
		found = append(found, next)
	}
	return found, nil
}

// enter reads the opening bracket of an object or a list. It returns false for another value.
func enter(data []byte, collection span, bracket json.Delim) (*json.Decoder, bool) {
	decoder := json.NewDecoder(bytes.NewReader(data[collection.start:collection.end]))
	opening, err := decoder.Token()
	return decoder, err == nil && opening == bracket
}

// nextValue skips a value. The decoder started at the offset.
func nextValue(decoder *json.Decoder, offset int) (span, error) {
	var value json.RawMessage
	if err := decoder.Decode(&value); err != nil {
		return span{}, &UnparsableError{Format: ignitionConfig, Err: err}
	}
	end := offset + int(decoder.InputOffset())
	return span{start: end - len(value), end: end}, nil
}
