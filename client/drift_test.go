package client_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client/api"
)

// schemas are the schemas of the OpenAPI document that the client's types stand for.
var schemas = map[string]string{
	"AuditActor":     "AuditActorOutput",
	"AuditEntry":     "AuditEntryOutput",
	"AuditTarget":    "AuditTargetOutput",
	"ContentSetting": "EvidenceSettingOutput",
	"DevicePoll":     "AuthPollDeviceOutput",
	"GatePolicy":     "GatesPolicyFields",
	"GateQuestion":   "GatesAskInputBody",
	"Me":             "AuthMeOutput",
	"NewAlert":       "AlertsCreateInputBody",
	"Organisation":   "MeOutputOrganisationStruct",
	"Price":          "PricingModel",
	"Prices":         "CostsSetPricesInputBody",
	"Publication":    "RegistryPublishOutput",
	"SyncItem":       "RegistryItem",
	"User":           "MeOutputUserStruct",
	"Verdict":        "GradesGradeInputBody",
}

// inNoSchema are types that the document does not have under a name.
var inNoSchema = map[string]string{
	"Signal":            "one of the two forms of an element of signals",
	"Upload":            "the fields of a multipart form",
	"api.BundlesSource": "only embedded",
	"api.ReviewedCase":  "only embedded",
	"api.SignalsSource": "only embedded",
	"api.Withholding":   "only embedded",
}

// TestTypesAreThoseOfTheDocument keeps the client from lagging behind the API: a field
// that an answer has gained, or a type of the client that nobody compares, fails.
func TestTypesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../internal/app/testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	types := wireTypes(t)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		fields := fieldsOf(types, name)
		schema, ok := schemas[name]
		if own, declared := strings.CutPrefix(name, "api."); declared {
			schema = api.SchemaName(own)
			ok = schema != ""
		}
		if inNoSchema[name] != "" || len(fields) == 0 {
			continue
		}
		if !ok {
			t.Errorf("%s: name the schema that it stands for in schemas", name)
			continue
		}
		properties := document.Components.Schemas[schema].Properties
		if len(properties) == 0 {
			t.Errorf("%s: the document has no schema %s", name, schema)
		}
		for _, p := range slices.Sorted(maps.Keys(properties)) {
			if !fields[p] {
				t.Errorf("%s lacks %s of %s", name, p, schema)
			}
		}
		for _, f := range slices.Sorted(maps.Keys(fields)) {
			if properties[f] == nil {
				t.Errorf("%s has %s, which %s does not have", name, f, schema)
			}
		}
	}
	for name := range schemas {
		if types[name] == nil {
			t.Errorf("schemas has %s, which is no type of the client", name)
		}
	}
}

// wireTypes are the exported structs of the client's packages; those of a package below
// it have its name before theirs.
func wireTypes(t *testing.T) map[string]*ast.StructType {
	t.Helper()
	types := map[string]*ast.StructType{}
	for _, dir := range []string{".", "api"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok || !spec.Name.IsExported() {
					return true
				}
				if fields, ok := spec.Type.(*ast.StructType); ok {
					types[strings.TrimPrefix(dir+"."+spec.Name.Name, "..")] = fields
				}
				return true
			})
		}
	}
	return types
}

// fieldsOf are the names by which a type's fields are on the wire, with those of types
// that it embeds.
func fieldsOf(types map[string]*ast.StructType, name string) map[string]bool {
	fields := map[string]bool{}
	for _, f := range types[name].Fields.List {
		if embedded, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 {
			for _, of := range []string{embedded.Name, "api." + embedded.Name} {
				if types[of] != nil {
					maps.Copy(fields, fieldsOf(types, of))
				}
			}
		}
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			continue // the parser has accepted it
		}
		if onWire, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); onWire != "" && onWire != "-" {
			fields[onWire] = true
		}
	}
	return fields
}
