// Package openapi_test reads the service's OpenAPI document with a validator
// that is not ours.
package openapi_test

import (
	"os"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

// golden is what the service answers at /openapi.json; a test of the service
// keeps it so.
const golden = "../../internal/app/testdata/openapi.json"

// TestDocument checks the document against the schema of OpenAPI 3.1, and that
// every reference in it leads somewhere.
func TestDocument(t *testing.T) {
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	document, err := libopenapi.NewDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	model, err := document.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	valid, problems := v.ValidateDocument()
	for _, p := range problems {
		t.Errorf("%s: %s", p.Message, p.Reason)
		for _, s := range p.SchemaValidationErrors {
			t.Errorf("  %s at %s", s.Reason, s.Location)
		}
	}
	if !valid {
		t.Error("the document is not valid OpenAPI 3.1")
	}
	operations := 0
	for _, item := range model.Model.Paths.PathItems.FromOldest() {
		operations += item.GetOperations().Len()
	}
	t.Logf("OpenAPI %s: %d operations on %d paths", model.Model.Version, operations, model.Model.Paths.PathItems.Len())
}
