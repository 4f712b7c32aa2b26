package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
)

// TestRunnerFails expects a document with the completed actions of a command that fails.
func TestRunnerFails(t *testing.T) {
	broken := errors.New("connection refused")
	for name, tc := range map[string]struct {
		form  output
		steps []error
		want  []string
	}{
		"Middle": {formJSON, []error{nil, broken}, []string{"Unpaused Cluster 0"}},
		"First":  {formJSON, []error{broken}, nil},
		"Text":   {formText, []error{nil, broken}, nil},
	} {
		var text, messages bytes.Buffer
		c := &recovery{form: tc.form}
		run := c.runner("PivotResume", func(environment Environment) error {
			c.environment, c.progress = environment, newProgress(environment.Errors)
			return nil
		}, func(context.Context) error {
			for i, err := range tc.steps {
				if err := c.act(func() error { return err }, "Unpaused Cluster %d", i); err != nil {
					return err
				}
			}
			return nil
		})
		code, err := run(t.Context(), Environment{Output: &text, Errors: &messages})
		if code != exitBlind || !errors.Is(err, broken) {
			t.Errorf("%s: got exit code %d, %v", name, code, err)
		}
		if tc.want == nil {
			if text.Len() > 0 {
				t.Errorf("%s: got %s", name, &text)
			}
			continue
		}
		var got outcome
		if err := json.Unmarshal(text.Bytes(), &got); err != nil || got.Done || !slices.Equal(tc.want, got.Actions) {
			t.Errorf("%s: got %s, %v", name, &text, err)
		}
	}
}
