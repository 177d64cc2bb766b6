package writer

import "context"

// Read parses an answer.
func Read(ctx context.Context, r Request, answer string) (_ Answer, problem, err error) {
	return r.read(ctx, answer)
}
