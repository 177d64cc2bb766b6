package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// A command is a curl command of the API reference.
type command struct {
	method, url string
	header      []string
	data        string
	form        []string
}

var (
	operationBlock = regexp.MustCompile(`(?s)<details class="op" id="([^"]+)">.*?<pre[^>]*><code>(.*?)</code></pre>`)
	placeholders   = regexp.MustCompile(`/[A-Z][A-Z_]*\b`)
	tags           = regexp.MustCompile(`<[^>]*>`)
)

// unsent are the operations whose examples are not sent, with the reason.
var unsent = map[string]string{
	"delete-api-v1-organization":             "ends the test",
	"delete-api-v1-me-data":                  "ends the test",
	"post-api-v1-me-leave":                   "ends the test",
	"post-api-v1-sets":                       "needs entries and a team",
	"post-api-v1-trusted-publishers":         "needs an entry",
	"post-api-v1-trusted-publishers-token":   "needs the token of a workflow",
	"post-api-v1-repohost-webhook":           "needs the signature of a code host",
	"post-api-v1-eval-suites-id-runs-import": "needs a file of another program",
}

// TestReferenceCommands runs what a reader of the API reference copies: every command is
// one that a shell and curl understand, its body is as documented, and the server
// understands it.
func TestReferenceCommands(t *testing.T) {
	s := start(t, settings(t, "--roles", "web"))
	_, page := s.get(t, "/docs", "")
	raw, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	document, err := apptest.NewDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]any{}
	file, err := os.ReadFile("examples.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file, &examples); err != nil {
		t.Fatal(err)
	}
	blocks := operationBlock.FindAllStringSubmatch(page, -1)
	if len(blocks) != len(s.Routes()) {
		t.Errorf("%d commands, want one for each of %d operations", len(blocks), len(s.Routes()))
	}
	for _, block := range blocks {
		id, text := block[1], html.UnescapeString(tags.ReplaceAllString(block[2], ""))
		_, isGiven := examples[id]
		delete(examples, id)
		delete(examples, id+" 200") // of its answer
		c, err := parseCommand(text)
		if err != nil {
			t.Errorf("%s: %v in\n%s", id, err, text)
			continue
		}
		req, err := c.request(t, s.url, s.FirstKey)
		if err != nil {
			t.Errorf("%s: %v in\n%s", id, err, text)
			continue
		}
		if err := document.CheckBody(req, c.data); c.data != "" && err != nil {
			t.Errorf("%s: %v in\n%s", id, err, text)
		}
		// What is generated from a schema may lack what only the operation knows.
		if unsent[id] != "" || !isGiven && (c.data != "" || c.form != nil) {
			continue
		}
		if err := send(req); err != nil {
			t.Errorf("%s: %v\n%s", id, err, text)
		}
	}
	for id := range examples {
		t.Errorf("examples.json has %s, which is no operation", id)
	}
}

// send reports an answer that says that the request is not understood.
func send(r *http.Request) error {
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		body, _ := io.ReadAll(res.Body)
		return fmt.Errorf("%d %s", res.StatusCode, body)
	}
	return nil
}

// parseCommand reads a curl command, with the options that the reference uses.
func parseCommand(text string) (c command, err error) {
	words, err := shellWords(text)
	if err != nil {
		return c, err
	}
	if len(words) < 2 || words[0] != "curl" {
		return c, fmt.Errorf("it is not curl: %q", words)
	}
	for i := 1; i < len(words); i++ {
		value := func() string {
			if i++; i < len(words) {
				return words[i]
			}
			err = fmt.Errorf("%s has no value", words[i-1])
			return ""
		}
		switch word := words[i]; {
		case word == "-X":
			c.method = value()
		case word == "-H":
			c.header = append(c.header, value())
		case word == "-d":
			c.data = value()
		case word == "-F":
			c.form = append(c.form, value())
		case word == "--no-buffer":
		case !strings.HasPrefix(word, "-") && c.url == "":
			c.url = word
		default:
			err = fmt.Errorf("unknown word %q", word)
		}
	}
	return c, err
}

// shellWords splits a command as a shell does: by white space outside of quotes.
func shellWords(text string) (words []string, err error) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for {
		text = strings.TrimLeft(text, " \n")
		if text == "" {
			return words, nil
		}
		var word strings.Builder
		for text != "" && text[0] != ' ' && text[0] != '\n' {
			quote := text[:1]
			switch quote {
			case "'", `"`:
				inner, rest, ok := strings.Cut(text[1:], quote)
				if !ok || quote == `"` && strings.ContainsAny(inner, "`\\") {
					return nil, fmt.Errorf("bad quotes at %.20q", text)
				}
				word.WriteString(inner)
				text = rest
			case `\`:
				word.WriteString(text[1:2])
				text = text[2:]
			default:
				if strings.ContainsAny(quote, "$&|;<>*?(){}[]#~`") {
					return nil, fmt.Errorf("a shell would interpret %.20q", text)
				}
				word.WriteString(quote)
				text = text[1:]
			}
		}
		words = append(words, word.String())
	}
}

// request is what curl sends, to that server with that key.
func (c command) request(tb testing.TB, server, key string) (*http.Request, error) {
	_, path, ok := strings.Cut(strings.TrimPrefix(c.url, "http://"), "/")
	if !ok || !strings.HasPrefix(c.url, "http://127.0.0.1:8080/") {
		return nil, fmt.Errorf("the address is %s", c.url)
	}
	path = placeholders.ReplaceAllString("/"+path, "/0198c2f4-7a51-7e3c-9b1d-2f60a8d4c5e7")
	var body io.Reader = strings.NewReader(c.data)
	method, kind := c.method, ""
	if c.form != nil {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for _, part := range c.form {
			name, value, _ := strings.Cut(part, "=")
			if err := writePart(tb, w, name, value); err != nil {
				return nil, err
			}
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		body, kind = &b, w.FormDataContentType()
	}
	if method == "" && c.data+kind != "" {
		return nil, fmt.Errorf("a body without a method")
	}
	req, err := http.NewRequest(method, server+path, body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for _, h := range c.header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, strings.ReplaceAll(value, "$WHETSTONE_API_KEY", key))
	}
	if strings.Contains(fmt.Sprint(req.Header), "$") {
		return nil, fmt.Errorf("an unknown variable in %v", req.Header)
	}
	return req, nil
}

// writePart writes a part, in which @NAME is a file that this test knows.
func writePart(tb testing.TB, w *multipart.Writer, name, value string) error {
	file, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return w.WriteField(name, value)
	}
	content := map[string]string{
		"skill.tar.gz": apptest.Archive(tb, "pdf-forms"),
		"evals.json":   `[{"query": "Fill in this PDF form", "should_trigger": true}]`,
	}[file]
	if content == "" {
		content = "{}"
	}
	part, err := w.CreateFormFile(name, file)
	if err == nil {
		_, err = io.WriteString(part, content)
	}
	return err
}
