package writer_test

import (
	"context"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/learn/improve/writer"
)

// FuzzRead: an answer is used as a whole, and changes the skill, or is refused with
// a problem.
func FuzzRead(f *testing.F) {
	f.Add(`{"reason":"r","edits":[{"op":"replace","anchor":"dollars","text":"euros","why":"w","cases":["r1"]}]}`)
	f.Add(`{"reason":"r","edits":[]}`)
	f.Add(`{"edits":[{"op":"delete","anchor":"Leave out the tax."},{"op":"insert_after","anchor":"dollars.","text":"\u202e"}]}`)
	f.Add(`{"reason":null,"edits":[null]}`)
	f.Add(`[1]`)
	f.Fuzz(func(t *testing.T, answer string) {
		got, problem, err := writer.Read(context.Background(), request(), answer)
		switch {
		case err != nil:
			t.Fatal(err)
		case problem != nil && (got.Edits != nil || got.Skill != ""):
			t.Errorf("a refused answer has %+v", got)
		case problem == nil && len(got.Edits) > 0 && got.Skill == invoices:
			t.Errorf("edits %+v change nothing", got.Edits)
		case problem == nil && len(got.Edits) == 0 && got.Reason == "":
			t.Error("no reason for no edits")
		}
	})
}
