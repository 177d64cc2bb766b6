package grpc

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A message reads the one message of a unary call: a flag that says whether it is
// compressed, its length in four bytes, and its data.
type message struct {
	from     io.ReadCloser
	encoding string // of compressed messages, e.g. "gzip"
	left     int64  // bytes of data that are not read yet
	problem  string // with the frame
}

// ContentEncoding reads the frame's head. It is called when the caller is known: a
// call without a key takes no time to read.
func (m *message) ContentEncoding() (string, error) {
	var head [5]byte
	if _, err := io.ReadFull(m.from, head[:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return "", m.invalid("the call has no message")
		}
		return "", err
	}
	m.left = int64(binary.BigEndian.Uint32(head[1:]))
	switch {
	case head[0] == 0:
		return "identity", nil
	case head[0] != 1:
		return "", m.invalid("the message does not begin with a frame of gRPC")
	case m.encoding == "" || m.encoding == "identity":
		return "", m.invalid("the message is compressed, but grpc-encoding does not say how")
	}
	return m.encoding, nil
}

// Read implements io.Reader.
func (m *message) Read(p []byte) (int, error) {
	if m.left == 0 {
		return 0, m.end()
	}
	n, err := m.from.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	if errors.Is(err, io.EOF) {
		if m.left > 0 {
			return n, m.invalid("the message is shorter than its frame says")
		}
		err = nil // the next call finds the end
	}
	return n, err
}

// end is io.EOF, unless there is a second message.
func (m *message) end() error {
	n, err := io.ReadFull(m.from, make([]byte, 1))
	if n > 0 {
		return m.invalid("the call has more than one message")
	}
	return err
}

// Close implements io.Closer.
func (m *message) Close() error { return m.from.Close() }

func (m *message) invalid(problem string) error {
	m.problem = problem
	return fault.Invalid("", "%s", problem)
}
