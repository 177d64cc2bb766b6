package outbound

import (
	"errors"
	"io"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// limitedBody is a response body that fails with TooLarge once more than limit
// bytes are read. It counts decompressed bytes, so a compression bomb is caught,
// too. Content-Length is ignored: a caller may need only the first bytes.
type limitedBody struct {
	from   io.ReadCloser
	origin string
	limit  int64
	left   int64
	err    error
}

// Read asks for one byte more than is left, to distinguish a body of exactly
// limit bytes from a longer one.
func (b *limitedBody) Read(p []byte) (int, error) {
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
		err = redactError(b.origin, err)
	}
	b.err = err
	return n, err
}

func (b *limitedBody) Close() error {
	if err := b.from.Close(); err != nil {
		return redactError(b.origin, err)
	}
	return nil
}
