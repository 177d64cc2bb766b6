package httpapi

import "context"

// The small parsers.
var (
	ReplaceNUL    = replaceNUL
	UnmarshalJSON = unmarshalJSON
	TextIssues    = textIssues
)

// Grow takes some memory, and more when between returns.
func (b *Budget) Grow(ctx context.Context, first int64, between func(), more int64) error {
	s := b.share(ctx)
	defer s.Release()
	if err := s.Grow(ctx, first); err != nil {
		return err
	}
	between()
	return s.Grow(ctx, more)
}
