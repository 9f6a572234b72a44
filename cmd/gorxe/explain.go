package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/service/proto"
)

type explainCmd struct {
	Socket string   `placeholder:"PATH" predictor:"file" help:"Socket of the daemon (default: $$GORXE_SOCKET; else /run/gorxe.sock for root; else gorxe.sock in $$XDG_RUNTIME_DIR, /run/user/UID or /tmp/gorxe-UID, then /run/gorxe.sock)."`
	JSON   bool     `name:"json" help:"Print JSON. Only without words."`
	Word   []string `arg:"" optional:"" predictor:"word" help:"A status, an event, an errno, a verb, a reject reason, their numbers, a line that a program printed, or modify_qp."`
}

// Help is the part of `gorxe explain --help` above the flags.
func (explainCmd) Help() string {
	return `Without words, it says what went wrong in the programs that run, as gorxe status --errors: each verb that was refused, with the attribute, the limit or the state, and each bad completion, with the packet and what the peer said. gorxe run --explain does so at a program's end.

With words, it says what they mean. A word is a status of enum ibv_wc_status, an event of enum ibv_event_type or of RDMA CM, an acknowledgement, an errno or its text, a verb, or a reject reason of RDMA CM. Its prefix, as IBV_WC_, may be missing. A number is that of a status, as perftest prints it ("Failed status 12"), of an errno, of a reject reason ("error 8"), or an exit code of gorxe run: all are explained. The words may also be a line that a program printed, with or without quotes. The vendor_err beside it ("syndrom 0x0") is 0, unless a fault rule sets it. modify_qp prints which attributes each step of a queue pair needs.

The exit code is 0, 1 if no daemon is reachable, 2 if a word is unknown.

Examples:
  gorxe explain
  gorxe explain IBV_WC_RETRY_EXC_ERR
  gorxe explain rem_access_err EINVAL
  gorxe explain 12
  gorxe explain Failed to get IB devices list: Function not implemented
  gorxe explain modify_qp`
}

// modifyQP is the word that prints the life cycle of queue pairs.
const modifyQP = "modify_qp"

// Run explains.
func (c explainCmd) Run(std streams) error {
	if len(c.Word) == 0 {
		err := printErrors(std.out, c.Socket, c.JSON)
		if errors.Is(err, proto.ErrNoDaemon) {
			err = fmt.Errorf("%w. To explain a status or an errno, give it: gorxe explain 12", err)
		}
		return err
	}
	if c.JSON {
		return usageError{errors.New("--json is for the errors of programs: leave the words out")}
	}
	unknown := slices.IndexFunc(c.Word, func(word string) bool { return !isModifyQP(word) && explain.Find(word) == nil })
	if unknown >= 0 {
		found := explain.Search(strings.Join(c.Word, " "))
		if found == nil {
			return unknownWord(c.Word[unknown], strings.Join(c.Word, " "))
		}
		writeWords(std.out, found)
		return nil
	}
	for _, word := range c.Word {
		if isModifyQP(word) {
			if err := writeTransitions(std.out); err != nil {
				return err
			}
			continue
		}
		writeWords(std.out, explain.Find(word))
	}
	return nil
}

func isModifyQP(word string) bool { return strings.TrimPrefix(word, "ibv_") == modifyQP }

// unknownWord is the error of a word that is not known, in a line that is not known either, with
// names that the word may mean.
func unknownWord(word, line string) error {
	if guesses := like(word); len(guesses) > 0 {
		return usageError{fmt.Errorf("%q is not known: did you mean %s?", word, strings.Join(guesses[:min(len(guesses), 4)], " or "))}
	}
	return usageError{fmt.Errorf("%q has no status, event, errno, verb or error line that is known: give a name as ibv_wc_status_str or the header has it, its number, or the line that the program printed", line)}
}

// writeWords prints what words mean.
func writeWords(out io.Writer, found []explain.Word) {
	for _, w := range found {
		title := w.Name + ", " + w.Kind
		if w.Number >= 0 {
			title += fmt.Sprintf(" %d", w.Number)
		}
		if w.Text != "" {
			title += fmt.Sprintf(" (%s)", w.Text)
		}
		fmt.Fprintln(out, title)
		writeWrapped(out, "  ", w.Meaning)
		if w.Fix != "" {
			writeWrapped(out, "  ", "What to do: "+w.Fix)
		}
	}
}

// like returns the names that contain a word, or else one that differs from it in a letter or two.
func like(word string) (contain []string) {
	var names []string
	for _, w := range explain.Words() {
		if !w.IsName() {
			continue
		}
		names = append(names, w.Name)
		if len(word) > 2 && strings.Contains(w.Name, strings.ToUpper(word)) {
			contain = append(contain, w.Name)
		}
	}
	if contain != nil {
		return contain
	}
	for _, prefix := range explain.Prefixes {
		if near := fault.Nearest(prefix+word, names); near != "" {
			return []string{near}
		}
	}
	return nil
}

// writeTransitions prints the life cycle of queue pairs as the engine has it.
func writeTransitions(w io.Writer) error {
	t := newTable(w)
	for i, s := range explain.Steps() {
		if i > 0 {
			fmt.Fprintln(t)
		}
		fmt.Fprintf(t, "%s: %s to %s\n", s.Type, s.From, s.To)
		if s.Needs == "-" && s.May == "-" {
			fmt.Fprintln(t, "  needs nothing more")
		}
		writeMask(t, "needs", s.Needs)
		writeMask(t, "may set", s.May)
	}
	fmt.Fprintln(t, "\nEach step needs IBV_QP_STATE, too.")
	return t.Flush()
}

// writeMask prints attributes as C joins them.
func writeMask(t *table, what, mask string) {
	if mask == "-" {
		return
	}
	for i, line := range wrap(strings.ReplaceAll(mask, "|", " | "), t.width-len("  may set  ")) {
		if i > 0 {
			what = ""
		}
		fmt.Fprintf(t, "  %-7s\t%s\n", what, line)
	}
}

// printErrors prints the last errors of the programs that run.
func printErrors(w io.Writer, socket string, asJSON bool) error {
	client, err := dialDaemon(socket)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Errors()
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(w, list)
	}
	for i := range list {
		writeErrors(w, &list[i])
	}
	return nil
}

// writeErrors prints the errors of one session.
func writeErrors(w io.Writer, e *proto.Errors) {
	fmt.Fprintf(w, "session %d, user %s, %s: %s\n", e.Session, userName(e.UID), printable(strings.Join(e.Command, " ")), errorCount(e))
	for i := range e.Errors {
		fmt.Fprintf(w, "  %s\n", errorLine(&e.Errors[i], true))
	}
}

func errorCount(e *proto.Errors) string {
	kept := uint64(0)
	for i := range e.Errors {
		kept += e.Errors[i].Count
	}
	switch {
	case e.Total == 0:
		return "no errors"
	case kept < e.Total:
		return fmt.Sprintf("%d errors, of which these are the last", e.Total)
	case e.Total == 1:
		return "1 error"
	}
	return fmt.Sprintf("%d errors", e.Total)
}

// errorLine is a record on one line: the process, and the sentence.
func errorLine(r *explain.Record, when bool) string {
	var b strings.Builder
	if when {
		b.WriteString(r.Time.Format(time.TimeOnly) + " ")
	}
	if r.PID != 0 {
		b.WriteString(explain.NameOf(r.Role, printable(r.Program), r.PID) + ": ")
	}
	b.WriteString(r.String())
	if r.Count > 1 {
		fmt.Fprintf(&b, " (%d times)", r.Count)
	}
	return b.String()
}

// explainRun prints the errors of a program that has ended.
func explainRun(outcome keeper.Outcome, w io.Writer) {
	if outcome.ReportErr != nil {
		fmt.Fprintf(w, "gorxe: the program's errors are not known: %s\n", printableText(outcome.ReportErr.Error()))
		return
	}
	e := &outcome.Report.Errors
	fmt.Fprintf(w, "gorxe: %s\n", errorCount(e))
	for i := range e.Errors {
		fmt.Fprintf(w, "gorxe: %s\n", errorLine(&e.Errors[i], false))
	}
}

// unexplained says what gorxe knows of a program that failed, unless another flag tells it.
func (c *runCmd) unexplained(errors uint64, faults []fault.Status) string {
	if c.Explain || c.ExplainTo != "" || c.dir() != "" || c.Why == whyNone {
		return ""
	}
	var seen []string
	if fired := len(faults) - len(fault.Missed(faults)); fired > 0 {
		seen = append(seen, plural.Of(fired, "fault rule")+" fired")
	}
	if errors > 0 {
		seen = append(seen, plural.Of(errors, "error"))
	}
	if seen == nil {
		return ""
	}
	return strings.Join(seen, ", ") + ": " + cmp.Or(c.Why, "--explain") + " says why"
}

// explainTo appends the errors of a program that has ended to a file, if there are any.
func explainTo(path string, outcome keeper.Outcome) error {
	if outcome.ReportErr == nil && (outcome.Report == nil || outcome.Report.Errors.Total == 0) {
		return nil // a run within another one has no report
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("--explain-to: %w", err)
	}
	var text bytes.Buffer
	explainRun(outcome, &text)
	_, err = f.Write(text.Bytes()) // at once, because other runs may append as well
	return errors.Join(err, f.Close())
}

// explainable are the words that gorxe explain knows.
func explainable() []string {
	names := []string{modifyQP}
	for _, w := range explain.Words() {
		if w.IsName() {
			names = append(names, w.Name)
		}
	}
	slices.Sort(names)
	return names
}
