package main

import "testing"

func TestExceeds(t *testing.T) {
	if err := exceeds(1000, "the exponent of the time", 1.1, goalDataExponent); err != nil {
		t.Errorf("a value equal to the goal is missed: %v", err)
	}
	const want = "measuring 1000 claims: the exponent of the time is 1.20, want 1.1 at most"
	if err := exceeds(1000, "the exponent of the time", 1.2, goalDataExponent); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
