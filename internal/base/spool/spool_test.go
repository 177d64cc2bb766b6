package spool_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

func TestSpool(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, size := range []int{0, 1, 1 << 20, 1<<20 + 1, 3 << 20} {
		content := bytes.Repeat([]byte("abc"), size/3+1)[:size]
		s := spool.New(-1)
		for _, half := range [][]byte{content[:size/2], content[size/2:]} {
			if _, err := s.Write(half); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			got, err := io.ReadAll(s.Reader())
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes came back as %d, %v", size, len(got), err)
			}
		}
		if n, err := s.ReadAt(make([]byte, 1), int64(size)+1); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read %d bytes beyond the end of %d, %v", n, size, err)
		}
		if err := errors.Join(s.Err(), s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		if _, err := s.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
			t.Errorf("a closed spool reads: %v", err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left over are %v, %v", left, err)
	}
}

// TestErrorIsSticky: after a failed write the content is incomplete, so that all
// later writes fail, too.
func TestErrorIsSticky(t *testing.T) {
	t.Setenv("TMPDIR", "/nonexistent")
	s := spool.New(0)
	defer s.Close()
	if _, err := s.Write(make([]byte, 2<<20)); err == nil || !errors.Is(s.Err(), err) {
		t.Fatalf("Write = %v, Err = %v", err, s.Err())
	}
	if _, err := s.Write([]byte("x")); err == nil {
		t.Error("a write after a failed one succeeds")
	}
}

func TestFill(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	content := bytes.Repeat([]byte("abc"), 1<<20)
	s, err := spool.Fill(-1, func(w io.Writer) error {
		for part := range slices.Chunk(content, 100) {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(s.Reader()); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes came back as %d, %v", len(content), len(got), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	cause := errors.New("the source is broken")
	s, err = spool.Fill(0, func(w io.Writer) error {
		_, _ = w.Write(content) // it is the source that fails
		return cause
	})
	if s != nil || !errors.Is(err, cause) {
		t.Errorf("Fill = %v, %v", s, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing no spool: %v", err)
	}
}
