package sandbox

// NewTail exports tail.
func NewTail(limit int) interface {
	Write([]byte) (int, error)
	Output() Output
} {
	return &exportedTail{tail{limit: limit}}
}

type exportedTail struct{ tail }

func (t *exportedTail) Output() Output { return t.output() }
