package httpapi_test

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// A thing is what the test capability keeps: one field of every sort.
type thing struct {
	Name  string        `json:"name" minLength:"1" maxLength:"10"`
	Kind  string        `json:"kind,omitempty" enum:"red,blue"`
	Size  float64       `json:"size,omitempty" minimum:"0" maximum:"1"`
	Count int           `json:"count,omitempty"`
	Note  *string       `json:"note,omitempty"`
	When  *httpapi.Time `json:"when,omitempty"`
	Cases []thingCase   `json:"cases_json,omitempty" maxItems:"5"`
}

type thingCase struct {
	Query string `json:"query" minLength:"1"`
}

type thingInput struct{ Body thing }

// echo answers what was decoded.
func echo(_ context.Context, in thingInput) (thing, error) { return in.Body, nil }

// mountThings adds routes that answer what they were sent.
func mountThings(a *httpapi.API) {
	httpapi.Add(a, echo, httpapi.Route{Method: "POST", Path: "/things", Status: 201, Summary: "Make a thing"})
	httpapi.Add(a, echo, httpapi.Route{Method: "POST", Path: "/hand-checked", HandChecked: true})
	httpapi.Add(a, patch, httpapi.Route{Method: "PATCH", Path: "/things/{id}"})
	httpapi.Add(a, list, httpapi.Route{Method: "GET", Path: "/things", Summary: "List things"})
	httpapi.Add(a, find, httpapi.Route{Method: "GET", Path: "/things/{id}", Plan: access.Pro, Permission: access.Write, Summary: "Find a thing"})
	httpapi.Add(a, remove, httpapi.Route{Method: "DELETE", Path: "/things/{id}", Status: 204})
}

type patchInput struct {
	ID   string `path:"id"`
	Body struct {
		Note *string `json:"note,omitempty"`
	}
}

type patchOutput struct {
	ID   string  `json:"id"`
	Note *string `json:"note"`
}

func patch(_ context.Context, in patchInput) (patchOutput, error) {
	return patchOutput{in.ID, in.Body.Note}, nil
}

type listInput struct {
	httpapi.Page
	Kind string `query:"kind" enum:"red,blue"`
	Q    string `query:"q"`
}

type listOutput struct {
	Offset     int                `json:"offset"`
	Q          string             `json:"q"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func list(_ context.Context, in listInput) (listOutput, error) {
	return listOutput{in.Offset(), in.Q, in.Of(42)}, nil
}

type idInput struct {
	ID string `path:"id" maxLength:"5"`
}

type findOutput struct {
	ID  string `json:"id"`
	Org string `json:"org"`
}

func find(ctx context.Context, in idInput) (findOutput, error) {
	if in.ID == "none" {
		return findOutput{}, fault.New(fault.NotFound, "Thing not found")
	}
	return findOutput{in.ID, access.From(ctx).OrgID}, nil
}

func remove(context.Context, idInput) (httpapi.None, error) { return httpapi.None{}, nil }
