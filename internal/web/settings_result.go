package web

// A formResult is what became of a request: a page, or where the browser goes next.
type formResult struct {
	Title   string
	View    any
	Problem error // of the form on the page; nil without one
	// To is the path to which the browser goes instead, and Message what it shows there.
	To, Message string
}
