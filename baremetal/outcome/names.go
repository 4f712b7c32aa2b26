package outcome

import (
	"fmt"
	"strings"
)

// shownNames is how many names a message lists.
const shownNames = 5

// Names joins names for a message, which does not grow with their number.
func Names(names []string) string {
	left := len(names) - shownNames
	if left <= 0 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shownNames], ", "), left)
}
