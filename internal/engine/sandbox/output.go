package sandbox

import "sync"

// An Output is what a program wrote to one of its streams.
type Output struct {
	// Tail is its last bytes, at most Limits.Output.
	Tail []byte
	// Discarded is the number of bytes before the tail.
	Discarded int64
}

// A Tail is a ring buffer that keeps the last bytes written to it. Write never
// blocks, so a program never waits for its output to be read.
type Tail struct {
	Limit int // bytes

	mu    sync.Mutex
	buf   []byte // grows to limit, then is a ring
	next  int    // index of the oldest byte in a full buf
	total int64
}

// Write always writes everything.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	t.total += int64(n)
	p = p[max(0, n-t.Limit):]
	room := min(len(p), t.Limit-len(t.buf))
	t.buf = append(t.buf, p[:room]...)
	// The ring is full only here: next stays 0 until then.
	for p = p[room:]; len(p) > 0; {
		copied := copy(t.buf[t.next:], p)
		t.next = (t.next + copied) % t.Limit
		p = p[copied:]
	}
	return n, nil
}

// Output returns what was written so far.
func (t *Tail) Output() Output {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]byte, 0, len(t.buf))
	all = append(all, t.buf[t.next:]...)
	all = append(all, t.buf[:t.next]...)
	return Output{Tail: all, Discarded: t.total - int64(len(all))}
}
