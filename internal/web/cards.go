package web

import (
	"bytes"
	"html"

	tokens "golang.org/x/net/html"
)

// labelCells gives each cell of a table the heading of its column as data-label. On a phone a
// row is a card, and each cell begins with its label (app.css); templates write a heading once,
// in the head of the table.
func labelCells(page []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(page) + len(page)/10)
	var heads []string
	var head *bytes.Buffer // of the heading that is being read; nil outside
	inHead, column := false, 0
	z := tokens.NewTokenizer(bytes.NewReader(page))
	for {
		kind := z.Next()
		if kind == tokens.ErrorToken { // the end
			return out.Bytes()
		}
		raw := z.Raw()
		switch kind {
		case tokens.TextToken:
			if head != nil {
				head.Write(raw)
			}
		case tokens.StartTagToken, tokens.EndTagToken:
			name, _ := z.TagName()
			start := kind == tokens.StartTagToken
			switch string(name) {
			case "table":
				heads = nil
			case "thead":
				inHead = start
			case "tr":
				column = 0
			case "th", "td":
				switch {
				case inHead && start:
					head = &bytes.Buffer{}
				case inHead:
					// Without the arrow of a sorted column.
					heads, head = append(heads, string(bytes.Trim(head.Bytes(), " \n↑↓"))), nil
				case start:
					if column < len(heads) && heads[column] != "" {
						out.Write(raw[:len(raw)-1])
						out.WriteString(` data-label="` + html.EscapeString(html.UnescapeString(heads[column])) + `">`)
						raw = nil
					}
					column++
				}
			}
		}
		out.Write(raw)
	}
}
