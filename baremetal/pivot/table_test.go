package pivot_test

import (
	"slices"
	"strings"
)

// combinations returns all rows with one value of each column.
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

// answer finds the first row of a table that matches the facts. Its last column is the answer, a star matches any
// value, and a bar separates values.
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
