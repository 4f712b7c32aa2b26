package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// columnGap is the space between two columns.
const columnGap = 3

// printJSON writes one document. A document of a stream takes one line, a single one is indented.
func printJSON(writer io.Writer, document any, stream bool) error {
	encoder := json.NewEncoder(writer)
	if !stream {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// printable replaces each character that a terminal does not print by its Go escape: control characters, tabs, line
// breaks, bidi controls, and bytes that are not UTF-8. Tenants of a cluster set the texts of its objects.
func printable(text string) string {
	var safe strings.Builder
	for len(text) > 0 {
		char, size := utf8.DecodeRuneInString(text)
		if shown := text[:size]; unicode.IsPrint(char) && utf8.ValidString(shown) {
			safe.WriteString(shown)
		} else {
			safe.WriteString(strings.Trim(strconv.Quote(shown), `"`))
		}
		text = text[size:]
	}
	return safe.String()
}

// printableLines is printable for a text that may have several lines, such as joined errors.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}

// printableValue formats a value with any verb, and then calls printable.
type printableValue struct{ value any }

// Format implements fmt.Formatter.
func (p printableValue) Format(state fmt.State, verb rune) {
	_, _ = io.WriteString(state, printable(fmt.Sprintf(fmt.FormatString(state, verb), p.value)))
}

// printTable writes rows with columns below each other. A cell takes one line.
func printTable(writer io.Writer, rows [][]string) error {
	aligned := tabwriter.NewWriter(writer, 0, 0, columnGap, ' ', 0)
	for _, row := range rows {
		cells := make([]string, 0, len(row))
		for _, cell := range row {
			cells = append(cells, printable(cell))
		}
		if _, err := fmt.Fprintln(aligned, strings.Join(cells, "\t")); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	if err := aligned.Flush(); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// say writes a line of text. Only the format can have line breaks.
func say(writer io.Writer, format string, values ...any) error {
	safe := make([]any, 0, len(values))
	for _, value := range values {
		safe = append(safe, printableValue{value})
	}
	if _, err := fmt.Fprintf(writer, format+"\n", safe...); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// number writes a count with its word: 1 host, 2 hosts.
func number(count int, word string) string {
	if count == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", count, word)
}

func (p preflight) write(writer io.Writer, form output) error {
	if form.machine() {
		return form.write(writer, p, false)
	}
	head := "Ready: clusterctl move of namespace %s would succeed now and lose nothing."
	if !p.Ready {
		head = "Not ready for clusterctl move of namespace %s."
	}
	if err := say(writer, head, p.Namespace); err != nil {
		return err
	}
	if err := say(writer, "Read %s, %s and %s.\n", number(p.Counted.Clusters, "Cluster"),
		number(p.Counted.Machines, "Machine"), number(p.Counted.Hosts, "host")); err != nil {
		return err
	}
	var rows [][]string
	if !p.Ready {
		rows = append(rows, []string{"CLUSTER", "IN THE WAY"})
	}
	for _, found := range p.Obstacles {
		rows = append(rows, []string{found.Cluster, found.Obstacle.String()})
	}
	for _, found := range p.Ignored {
		rows = append(rows, []string{"ignored", found.String()})
	}
	for _, note := range p.Notes {
		rows = append(rows, []string{"note", note})
	}
	return printTable(writer, rows)
}

// refuse prints the obstacles. Forcible is true if --force overrides them.
func (c *handoverCommand) refuse(done handoverResult, forcible bool) error {
	if c.form.machine() {
		return c.form.write(c.result, done, false)
	}
	kept := number(int(done.Before), "replica")
	if err := say(c.result, "Not done: Deployment %s keeps %s, because:", done.Deployment, kept); err != nil {
		return err
	}
	for _, refusal := range done.Refusals {
		if err := say(c.result, "- %s", refusal); err != nil {
			return err
		}
	}
	if forcible {
		return say(c.result, "\nTo ignore these reasons, use --force.")
	}
	return nil
}

// finish prints the result, or the planned result.
func (c *handoverCommand) finish(done handoverResult) error {
	if c.form.machine() {
		return c.form.write(c.result, done, false)
	}
	if err := c.sayScaled(done); err != nil {
		return err
	}
	for _, note := range done.Notes {
		if err := say(c.result, "Note: %s.", note); err != nil {
			return err
		}
	}
	if done.Handover == nil || done.Handover.Done {
		return nil
	}
	return say(c.result, "Not complete: %s.\nRun the command again to wait, or scale the Ironic up with --undo.",
		done.Handover.Problem)
}

// sayScaled prints the replicas, unless they were printed at the time of the change.
func (c *handoverCommand) sayScaled(done handoverResult) error {
	switch {
	case done.DryRun && !c.undo:
		return say(c.result, "Would scale Deployment %s from %d to %d replicas, and wait until the control plane holds the "+
			"VIP, and its Ironic has registered all hosts.", done.Deployment, done.Before, done.After)
	case done.DryRun:
		return say(c.result, "Would scale Deployment %s from %d to %d replicas.", done.Deployment, done.Before, done.After)
	case c.undo:
		return say(c.result, "Deployment %s has %s now, before %d.", done.Deployment,
			number(int(done.After), "replica"), done.Before)
	default:
		return nil
	}
}
