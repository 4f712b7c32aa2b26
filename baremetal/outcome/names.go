package outcome

import (
	"fmt"
	"strings"
)

// shownNames is the number of names in a message.
const shownNames = 5

// Names joins names for a message of limited length.
func Names(names []string) string {
	left := len(names) - shownNames
	if left <= 0 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shownNames], ", "), left)
}
