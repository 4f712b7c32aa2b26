package pivot_test

import (
	"slices"
	"strings"
)

// combinations are all rows that take one value of each column.
func combinations(columns ...[]string) [][]string {
	rows := [][]string{nil}
	for _, column := range columns {
		var longer [][]string
		for _, row := range rows {
			for _, value := range column {
				longer = append(longer, append(append([]string(nil), row...), value))
			}
		}
		rows = longer
	}
	return rows
}

// answer looks facts up in a table whose last column is the answer. A star fits any value, a bar divides values, and
// the first row that matches counts.
func answer(table [][]string, facts []string) string {
	for _, row := range table {
		fits := true
		for i, fact := range facts {
			fits = fits && (row[i] == "*" || slices.Contains(strings.Split(row[i], "|"), fact))
		}
		if fits {
			return row[len(row)-1]
		}
	}
	return "no row fits"
}
