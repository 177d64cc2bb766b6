package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// An input describes how the input of a typed function is read from a request.
// huma.Register does the same, but it is generic: compiled for the inputs of 210 routes,
// it was 8 MB of the binary.
type input struct {
	of         reflect.Type
	schemas    huma.Registry
	params     []param
	body       []int // index of the field Body, from JSON; nil if there is none
	bodySchema *huma.Schema
	unchecked  bool // the body is not validated here
	defaults   []bodyDefault
	rawBody    []int // index of the field RawBody
	form       []int // index of the embedded Form
}

// A param is a field that is read from the path, the query or a header.
type param struct {
	index             []int
	in, name          string
	fallback          string
	required, explode bool
	schema            *huma.Schema
}

// A bodyDefault is the value of a field of the body that is missing.
type bodyDefault struct {
	index []int // from the input; of the fields below a slice in each of its elements
	value reflect.Value
}

// newInput describes the input in the operation.
func (a *API) newInput(t reflect.Type, r Route, op *huma.Operation) *input {
	in := &input{of: t, schemas: a.huma.OpenAPI().Components.Schemas, unchecked: r.HandChecked}
	in.addParams(t, nil, op)
	if f, ok := t.FieldByName("Body"); ok {
		hint := op.OperationID + "Request"
		if t.Name() != "" {
			hint = t.Name() + f.Name
		}
		in.body, in.bodySchema = f.Index, huma.SchemaFromField(in.schemas, f, hint)
		in.bodySchema.PrecomputeMessages()
		in.addDefaults(f.Type, f.Index, nil)
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{jsonType: {Schema: in.bodySchema}}}
	}
	if f, ok := t.FieldByName("RawBody"); ok { // which may be empty: that is a valid protobuf message
		in.rawBody = f.Index
		binary := &huma.Schema{Type: huma.TypeString, Format: "binary"}
		op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{rawType: {Schema: binary}}}
	}
	if f, ok := t.FieldByName("Form"); ok && f.Type == reflect.TypeFor[Form]() {
		in.form = f.Index
	}
	return in
}

// addParams adds the parameters of a struct, and of those that it embeds.
func (in *input) addParams(t reflect.Type, index []int, op *huma.Operation) {
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(index), i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			in.addParams(f.Type, at, op)
			continue
		}
		for _, where := range []string{"path", "query", "header"} {
			tag, ok := f.Tag.Lookup(where)
			if !ok {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			p := param{
				index: at, in: where, name: name, fallback: f.Tag.Get("default"), explode: options == "explode",
				required: where == "path" || f.Tag.Get("required") == "true", schema: huma.SchemaFromField(in.schemas, f, ""),
			}
			in.params = append(in.params, p)
			if f.Type.Kind() == reflect.Slice && f.Type != reflect.TypeFor[[]string]() {
				panic("a parameter cannot be a " + f.Type.String())
			}
			if f.Tag.Get("hidden") == "true" {
				continue
			}
			described := &huma.Param{
				Name: name, In: where, Required: p.required, Description: p.schema.Description,
				Schema: p.schema,
			}
			if where == "query" {
				described.Explode = &p.explode
			}
			op.Parameters = append(op.Parameters, described)
		}
	}
}

// addDefaults adds the defaults of a body's fields.
func (in *input) addDefaults(t reflect.Type, index []int, above []reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || slices.Contains(above, t) {
		return
	}
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(index), i)
		text, ok := f.Tag.Lookup("default")
		if !ok {
			in.addDefaults(f.Type, at, append(above, t))
			continue
		}
		value := reflect.New(f.Type)
		if f.Type.Kind() == reflect.String {
			value.Elem().SetString(text)
		} else if err := json.Unmarshal([]byte(text), value.Interface()); err != nil {
			panic(err)
		}
		in.defaults = append(in.defaults, bodyDefault{at, value.Elem()})
	}
}

// setDefault sets the fields at the index that are zero.
func setDefault(v reflect.Value, index []int, value reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			setDefault(v.Elem(), index, value)
		}
	case reflect.Slice:
		for i := range v.Len() {
			setDefault(v.Index(i), index, value)
		}
	default:
		if len(index) > 0 {
			setDefault(v.Field(index[0]), index[1:], value)
		} else if v.IsZero() {
			v.Set(value)
		}
	}
}

// findings are the problems that are found in a request.
type findings struct {
	huma.ValidateResult
	at *huma.PathBuffer
}

var (
	findingsPool = sync.Pool{New: func() any { return &findings{at: huma.NewPathBuffer(make([]byte, 0, 128), 0)} }}
	bodyPool     = sync.Pool{New: func() any { return &bytes.Buffer{} }}
)

// maxPooled bounds what one large request keeps in the memory of the pools.
const maxPooled = 1 << 20

func releaseBody(b *bytes.Buffer) {
	if b != nil && b.Cap() <= maxPooled {
		b.Reset()
		bodyPool.Put(b)
	}
}

// read fills the input v. The caller releases the raw body, if there is one.
func (in *input) read(ctx huma.Context, v reflect.Value) (raw *bytes.Buffer, problem *errorBody) {
	found := findingsPool.Get().(*findings)
	defer func() {
		if cap(found.Errors) <= maxIssues {
			found.at.Reset()
			found.Reset()
			findingsPool.Put(found)
		}
	}()
	for i := range in.params {
		in.readParam(ctx, v, &in.params[i], found)
	}
	if in.body != nil || in.rawBody != nil {
		buffer := bodyPool.Get().(*bytes.Buffer)
		if _, err := buffer.ReadFrom(ctx.BodyReader()); err != nil {
			releaseBody(buffer)
			return nil, unreadBody(ctx.Context(), err)
		}
		if in.rawBody != nil {
			raw = buffer
			v.FieldByIndex(in.rawBody).SetBytes(buffer.Bytes())
		} else {
			in.readBody(buffer.Bytes(), v, found)
			releaseBody(buffer)
		}
	}
	if form, ok := ctx.Context().Value(formKey{}).(*Form); ok && in.form != nil {
		v.FieldByIndex(in.form).Set(reflect.ValueOf(*form))
	}
	if len(found.Errors) > 0 {
		problem = validation(issues(found.Errors))
	}
	return raw, problem
}

// unreadBody is the answer to a request whose body could not be read.
func unreadBody(ctx context.Context, err error) *errorBody {
	if b, ok := ctx.Value(bodyKey{}).(*boundedBody); ok && b.problem != nil {
		return problemBody(ctx, b.problem)
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return structured(http.StatusRequestTimeout, "request body read timeout")
	}
	return validation([]fault.Issue{{Message: "the body ended early"}}) // it is shorter than its Content-Length
}

func (in *input) readParam(ctx huma.Context, v reflect.Value, p *param, found *findings) {
	var text string
	switch p.in {
	case "path":
		text = ctx.Param(p.name)
	case "query":
		text = ctx.Query(p.name)
	default:
		text = ctx.Header(p.name)
	}
	if text == "" {
		text = p.fallback
	}
	found.at.Reset()
	found.at.Push(p.in)
	found.at.Push(p.name)
	if text == "" {
		if p.required {
			found.Add(found.at, "", "required "+p.in+" parameter is missing")
		}
		return
	}
	value, problem := p.set(ctx, v.FieldByIndex(p.index), text)
	if problem != "" {
		found.Add(found.at, text, problem)
		return
	}
	huma.Validate(in.schemas, p.schema, found.at, huma.ModeWriteToServer, value, &found.ValidateResult)
}

// set parses a parameter, and returns what its schema validates.
func (p *param) set(ctx huma.Context, field reflect.Value, text string) (value any, problem string) {
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
		return text, ""
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, "invalid integer"
		}
		field.SetInt(n)
		return n, ""
	case reflect.Bool:
		is, err := strconv.ParseBool(text)
		if err != nil {
			return nil, "invalid boolean"
		}
		field.SetBool(is)
		return is, ""
	}
	values := strings.Split(text, ",")
	if p.explode {
		u := ctx.URL()
		values = u.Query()[p.name]
	}
	field.Set(reflect.ValueOf(values))
	return values, ""
}

// readBody validates the JSON before it is decoded.
func (in *input) readBody(body []byte, v reflect.Value, found *findings) {
	before := len(found.Errors)
	if !in.unchecked {
		var parsed any
		if err := unmarshalJSON(body, &parsed); err != nil {
			found.Errors = append(found.Errors, err)
			return
		}
		found.at.Reset()
		found.at.Push("body")
		huma.Validate(in.schemas, in.bodySchema, found.at, huma.ModeWriteToServer, parsed, &found.ValidateResult)
	}
	if len(found.Errors) > before {
		return
	}
	if err := unmarshalJSON(body, v.FieldByIndex(in.body).Addr().Interface()); err != nil {
		found.Errors = append(found.Errors, err)
		return
	}
	for _, d := range in.defaults {
		setDefault(v, d.index, d.value)
	}
}
