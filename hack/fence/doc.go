// Package fence verifies the import rules of .golangci.yml. It has only a test, which builds a small module of the same
// name from testdata and runs the linter on it with the rules of this checkout.
//
// The module in testdata/clean must pass. The files in testdata/planted are added to it. Each line that violates a rule
// has a comment "want <linter> <words of the finding>", and the findings must be exactly those lines.
//
// A rule without a violation in testdata is not verified. Add a violation for each rule.
package fence
