package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// draw makes the choices of one request.
type draw struct{ *rand.Rand }

func newDraw(seed uint64, number int) draw {
	return draw{rand.New(rand.NewPCG(seed, uint64(number)))} // not a secret; numbers are not negative
}

func (d draw) below(n int) int { return d.IntN(n) }

func pick[T any](d draw, from ...T) T { return from[d.below(len(from))] }

// broken is a good request on its way to become a bad one.
type broken struct {
	apptest.Request
	operation
	draw
	kinds []string
	moved bool // it may reach another route than its own
}

func (r *broken) String() string {
	body := r.Body
	if len(body) > 600 {
		body = body[:600]
	}
	path := r.Path
	if len(path) > 300 {
		path = path[:300]
	}
	header := fmt.Sprintf("%.600q", fmt.Sprint(r.Header))
	return fmt.Sprintf("%v\n%s %s\n%s\n%q (%d bytes)", r.kinds, r.Method, path, header, body, len(r.Body))
}

// A way is one of those in which requests are broken.
type way struct {
	name   string
	apply  func()
	weight int
}

// ways are those that fit the request. What ends it at the door is drawn less
// often than what goes deep.
func (r *broken) ways() []way {
	all := []way{{"query", r.breakQuery, 1}, {"path", r.breakPath, 1}, {"header", r.breakHeader, 1}}
	if len(r.parameters) > 0 {
		all = append(all, way{"query", r.breakQuery, 5})
	}
	if len(r.Body) > 0 {
		all = append(all, way{"text", r.breakText, 2}, way{"type", r.breakType, 1}, way{"encoding", r.breakEncoding, 1})
	}
	if r.isJSON() {
		all = append(all, way{"json", r.breakJSON, 12})
	}
	if r.row.Form != nil {
		all = append(all, way{"form", r.breakForm, 6})
	}
	if r.below(3) == 0 {
		all = append(all, way{"method", r.breakMethod, 1}, way{"key", r.breakKey, 1})
	}
	return all
}

// mutate breaks one thing.
func (r *broken) mutate() {
	all, total := r.ways(), 0
	for _, w := range all {
		total += w.weight
	}
	at := r.below(total)
	for _, w := range all {
		if at -= w.weight; at < 0 {
			r.kinds = append(r.kinds, w.name)
			w.apply()
			return
		}
	}
}

// maxMutable is how long a body may be to be changed as JSON: some changes
// multiply.
const maxMutable = 256 << 10

func (r *broken) isJSON() bool {
	return len(r.Body) < maxMutable && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") && json.Valid(r.Body)
}

// raw is JSON that is written as it is, good or not.
type raw string

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// hostile is a value that a field did not expect.
func (r *broken) hostile() string {
	return pick(r.draw,
		`null`, `true`, `false`, `""`, `" "`, `0`, `-1`, `1`, `-0`, `0.5`, `1e308`, `1e400`, `-1e-400`, `99999999999999999999`, `9223372036854775807`,
		`-9223372036854775808`, `NaN`, `Infinity`, `[]`, `{}`, `[null]`, `[[]]`, `{"":""}`, `[1,"a",null,{}]`, `"\u0000"`, `"a\u0000b"`, `"\ud800"`,
		`"\udfff\ud800"`, `"\u202e\u2066"`, "\"\xff\xfe\"", `"𝕬😀"`, `"../../etc/passwd"`, `"'; DROP TABLE users; --"`, `"%s%n%d"`, `"<script>alert(1)</script>"`,
		`"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:60Z"`, `"2026-13-45"`, `"00000000-0000-0000-0000-000000000000"`, `"src_"`, `"http://[::1]:x/"`,
		`"http://169.254.169.254/latest"`, `"file:///etc/passwd"`, `"a@b@c"`, `"x\r\nBcc: y@example.org"`, `"*"`, `"[a-"`, `"sha256:"`,
		`"`+strings.Repeat("a", 1<<r.below(18))+`"`, `"`+strings.Repeat("é", 1<<r.below(14))+`"`,
		strings.Repeat("[", 1<<r.below(15)), nested(1<<r.below(14)), `[`+strings.Repeat(`0,`, 1<<r.below(15))+`0]`, strings.Repeat("9", 1<<r.below(12)),
	)
}

func nested(depth int) string {
	return strings.Repeat(`{"a":[`, depth) + strings.Repeat(`]}`, depth)
}

// breakJSON replaces, removes, adds or doubles a value somewhere in the body.
func (r *broken) breakJSON() {
	var document any
	if err := json.Unmarshal(r.Body, &document); err != nil {
		return
	}
	if r.below(12) == 0 {
		r.Body = []byte(r.hostile())
		return
	}
	r.Body = r.write(r.change(document))
}

// change walks to a random place and changes it.
func (r *broken) change(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return r.changeObject(v)
	case []any:
		if len(v) == 0 || r.below(4) == 0 {
			return append(v, raw(r.hostile()))
		}
		if r.below(6) == 0 {
			return slices.Repeat(v, max(1, 1<<r.below(11)/len(v)))
		}
		i := r.below(len(v))
		v[i] = r.change(v[i])
		return v
	}
	return raw(r.hostile())
}

func (r *broken) changeObject(v map[string]any) any {
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 || r.below(10) == 0 {
		v[pick(r.draw, "extra", "", "__proto__", "id", "org_id", "\x00", strings.Repeat("k", 5000))] = raw(r.hostile())
		return v
	}
	name := pick(r.draw, names...)
	switch r.below(6) {
	case 0:
		delete(v, name)
	case 1:
		v[strings.ToUpper(name)] = v[name]
		delete(v, name)
	case 2:
		v[name] = raw(r.hostile())
	default:
		v[name] = r.change(v[name])
	}
	return v
}

// write is the document as text; raw values may be no JSON, and sometimes a
// key comes twice.
func (r *broken) write(value any) []byte {
	var b bytes.Buffer
	r.writeValue(&b, value)
	return b.Bytes()
}

func (r *broken) writeValue(b *bytes.Buffer, value any) {
	switch v := value.(type) {
	case raw:
		b.WriteString(string(v))
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Quote(name))
			b.WriteByte(':')
			r.writeValue(b, v[name])
		}
		if len(names) > 0 && r.below(30) == 0 {
			b.WriteString("," + strconv.Quote(names[0]) + ":" + r.hostile())
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			r.writeValue(b, item)
		}
		b.WriteByte(']')
	default:
		text, _ := json.Marshal(v) // it came from JSON
		b.Write(text)
	}
}

// breakText breaks the body whatever it is.
func (r *broken) breakText() {
	at := r.below(len(r.Body))
	switch r.below(8) {
	case 0:
		r.Body = r.Body[:at]
	case 1:
		r.Body = nil
	case 2:
		r.Body = slices.Concat(r.Body[:at], []byte{byte(r.below(256))}, r.Body[at:])
	case 3:
		r.Body = slices.Concat([]byte("\xef\xbb\xbf"), r.Body)
	case 4:
		r.Body = slices.Concat(r.Body, r.Body)
	case 5:
		r.Body = slices.Concat(r.Body[:at], []byte("\x00"), r.Body[at:])
	case 6:
		r.Body = slices.Clone(r.Body)
		r.Body[at] ^= 1 << r.below(8)
	default:
		r.Body = bytes.Repeat([]byte(" "), 1<<r.below(22)) // up to 2 MiB of nothing
	}
}

// breakForm breaks a multipart body in its own ways.
func (r *broken) breakForm() {
	body := string(r.Body)
	boundary, _, _ := strings.Cut(body, "\r\n")
	switch r.below(9) {
	case 0:
		body = strings.TrimSuffix(strings.TrimRight(body, "\r\n"), "--") // no end
	case 1:
		body = strings.Replace(body, boundary, "--other", 1)
	case 2:
		body = strings.Replace(body, "Content-Disposition: form-data", "Content-Disposition: attachment", 1)
	case 3:
		body = strings.Replace(body, `name="`, `name="../../`, 1)
	case 4:
		body = strings.Replace(body, `filename="`, `filename="../\x00/`, 1)
	case 5:
		part := boundary + "\r\nContent-Disposition: form-data; name=\"x\"; filename=\"x\"\r\n\r\nx\r\n"
		body = strings.Repeat(part, 1<<r.below(11)) + body // the limit is 1000 parts
	case 6:
		body = strings.Replace(body, "\r\n\r\n", "\r\nX-Long: "+strings.Repeat("x", 1<<r.below(16))+"\r\n\r\n", 1)
	case 7:
		body = strings.Replace(body, "\r\n\r\n", "\r\n", 1)
	default:
		_, rest, _ := strings.Cut(body, boundary)
		body = boundary + rest + boundary + rest // every part twice
	}
	r.Body = []byte(body)
}

func (r *broken) breakType() {
	r.Header.Set("Content-Type", pick(r.draw, "", "text/plain", "application/xml", "application/json; charset=utf-16", "application/problem+json",
		"multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary="+strings.Repeat("x", 100), "application/x-protobuf", "/", ";;;", "application/json; =", "application/x-www-form-urlencoded"))
}

func (r *broken) breakEncoding() {
	encoding := pick(r.draw, "gzip", "br", "deflate", "gzip, gzip", "identity", "GZIP", "x", "")
	r.Header.Set("Content-Encoding", encoding)
	if strings.EqualFold(encoding, "gzip") && r.below(2) == 0 {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(r.Body) // into memory
		_ = w.Close()
		r.Body = packed.Bytes()
		if r.below(3) == 0 && len(r.Body) > 12 {
			r.Body = r.Body[:len(r.Body)-r.below(12)-1]
		}
	}
}

// breakMethod takes a method that the path does not have.
func (r *broken) breakMethod() {
	method := pick(r.draw, "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "X")
	if !slices.Contains(r.methods, strings.ToLower(method)) {
		r.Method, r.moved = method, true
	}
}

// breakPath changes one element of the path.
func (r *broken) breakPath() {
	path, query, _ := strings.Cut(r.Path, "?")
	elements := strings.Split(path, "/")
	i := 1 + r.below(len(elements)-1)
	value := pick(r.draw, "", ".", "..", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc", "%00", "a%00b", "%ff%fe", "%c3%28", "%", "%zz", "%2f", "null", "-1", "0", "*", "~",
		"'%20OR%20'1'='1", "%F0%9F%98%80", strings.Repeat("a", 1<<r.below(14)), "src_", "src_src_x", "00000000-0000-0000-0000-000000000000",
		strings.ToUpper(elements[i]), elements[i]+"/", elements[i]+"%20", "new", "import", "upload", "public", "sync")
	elements[i] = value
	r.Path, r.moved = strings.Join(elements, "/"), true
	if query != "" {
		r.Path += "?" + query
	}
}

// breakQuery gives parameters values that they did not expect, or gives some
// that are not there.
func (r *broken) breakQuery() {
	name := pick(r.draw, append(r.parameters, "page", "per_page", "x", "")...)
	value := pick(r.draw, "", "-1", "0", "1", "1e9", "99999999999999999999", "NaN", "true", "null", "%00", "%ff", "%zz", "%", "a%00b", "..", "'", "%F0%9F%98%80",
		"2026-01-02", "0000-00-00", "9999-99-99T99:99:99Z", url.QueryEscape(strings.Repeat("a", 1<<r.below(14))), strings.Repeat("a,", 1<<r.below(11)), "_", "%25", "%5C")
	separator := "?"
	if strings.Contains(r.Path, "?") {
		separator = pick(r.draw, "&", "&&", ";", "?")
	}
	r.Path += separator + strings.Repeat(name+"="+value+"&", 1+r.below(3)*r.below(3))
}

func (r *broken) breakHeader() {
	switch name := pick(r.draw, "Accept", "X-Request-Id", "Range", "If-None-Match", "Last-Event-ID", "If-Modified-Since", "Expect", "Cookie", "Origin", "X-Forwarded-For", "Accept-Encoding", "Content-Length", "Upgrade"); name {
	case "Range":
		r.Header.Set(name, pick(r.draw, "bytes=0-0", "bytes=-1", "bytes=9999999999-", "bytes=a-b", "bytes=0-1,0-1,0-1,0-1", "lines=1"))
	case "Last-Event-ID":
		r.Header.Set(name, pick(r.draw, "-1", "0", "99999999999999999999", "x", "1e3", strings.Repeat("9", 5000)))
	case "Accept":
		r.Header.Set(name, pick(r.draw, "text/html", "application/xml", "*/*;q=0", ";;", "application/json", strings.Repeat("a/b,", 2000)))
	case "X-Request-Id":
		r.Header.Set(name, pick(r.draw, "ok-1", "a b", "<script>", strings.Repeat("x", 100), "é"))
	case "Upgrade":
		r.Header.Set(name, "websocket")
		r.Header.Set("Connection", "Upgrade")
	case "Content-Length": // the transport writes its own; a second length is in badclients_test.go
		r.Header.Set("Transfer-Encoding", "chunked")
	default:
		r.Header.Set(name, pick(r.draw, "", "x", "null", "0", "é", "\"", "W/\"x\"", "http://evil.example", strings.Repeat("x", 1<<r.below(15))))
	}
}

// breakKey sends another key, or in another way.
func (r *broken) breakKey() {
	key := r.Header.Get("Authorization")
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", pick(r.draw, "", "Bearer", "Bearer ", "Basic eDp5", key+"x", strings.ToLower(key), "bearer"+strings.TrimPrefix(key, "Bearer"), key+" "+key, "Bearer "+strings.Repeat("x", 1<<r.below(15)), "Bearer \t", "Bearer é"))
	if r.Header.Get("Authorization") == "" {
		r.Header = http.Header{"Content-Type": r.Header["Content-Type"]}
	}
}
