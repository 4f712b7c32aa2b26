// Package fence proves that the fences of .golangci.yml bite. It has no code of its own, only a test, which builds a
// small module of the same name from testdata and runs the linter on it with the rules of this checkout.
//
// The module in testdata/clean must pass. The files in testdata/planted are put on top of it; each line that breaks a
// rule says so in a comment "want <linter> <words of the finding>", and the findings must be those lines and no others.
//
// A rule without a planted violation is not proved. Add a plant with each fence.
package fence
