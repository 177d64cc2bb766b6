package outbound

import (
	"errors"
	"io"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// body is an answer's body that ends in an error when it is longer than the
// limit. It counts what net/http hands out, so decompressed bytes. A length
// that the header announces is not held against it: a caller may want only
// the beginning.
type body struct {
	from   io.ReadCloser
	origin string
	limit  int64
	left   int64
	err    error
}

// Read asks for one byte more than is left, to tell a body that just fits from
// one that does not.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if int64(len(p))-1 > b.left {
		p = p[:b.left+1]
	}
	n, err := b.from.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		b.left = 0
		b.err = fault.New(fault.TooLarge, "%s: the answer is larger than %d bytes", b.origin, b.limit)
		return n, b.err
	}
	b.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = clean(b.origin, err)
	}
	b.err = err
	return n, err
}

func (b *body) Close() error {
	if err := b.from.Close(); err != nil {
		return clean(b.origin, err)
	}
	return nil
}
