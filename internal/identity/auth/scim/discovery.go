package scim

import (
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

type object = map[string]any

// getConfig says what this service can do. Providers read it before they push; what isn't announced
// here isn't used by them (RFC 7643, section 5).
func (s *Service) getConfig(*http.Request) (answer, error) {
	no := object{"supported": false}
	return answer{status: http.StatusOK, body: object{
		"schemas":        []string{configSchema},
		"patch":          object{"supported": true},
		"bulk":           object{"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
		"filter":         object{"supported": true, "maxResults": maxPage},
		"changePassword": no,
		"sort":           no,
		"etag":           no,
		"authenticationSchemes": []object{{
			"type": "oauthbearertoken", "name": "SCIM token", "primary": true,
			"description": "A token that an owner of the organisation makes in Settings, Provisioning",
		}},
		"meta": metaOutput{ResourceType: "ServiceProviderConfig", Location: s.URL() + "/ServiceProviderConfig"},
	}}, nil
}

// types and schemas are built for each request, since their locations depend on PublicURL.
func (s *Service) types() map[string]object {
	of := func(name, schema string) object {
		return object{
			"schemas": []string{typeSchema}, "id": name, "name": name, "endpoint": "/" + name + "s", "schema": schema,
			"meta": metaOutput{ResourceType: "ResourceType", Location: s.URL() + "/ResourceTypes/" + name},
		}
	}
	return map[string]object{"User": of("User", userSchema), "Group": of("Group", groupSchema)}
}

func (s *Service) listTypes(r *http.Request) (answer, error) {
	all := s.types()
	return list(r, 2, 1, []any{all["User"], all["Group"]}), nil
}

func (s *Service) getType(r *http.Request) (answer, error) { return one("resource type", s.types(), r) }

// attribute describes an attribute; sub has those of a complex one. The defaults are those of RFC
// 7643, section 2.2.
func attribute(name, kind string, more object, sub ...object) object {
	a := object{
		"name": name, "type": kind, "multiValued": false, "required": false, "mutability": "readWrite", "returned": "default",
		"uniqueness": "none",
	}
	if kind == "string" {
		a["caseExact"] = false
	}
	if len(sub) > 0 {
		a["subAttributes"] = sub
	}
	for key, value := range more {
		a[key] = value
	}
	return a
}

// schemas describes only what this service stores; providers ignore the rest.
func (s *Service) schemas() map[string]object {
	text := func(name string, more object) object { return attribute(name, "string", more) }
	of := func(id, name string, attributes ...object) object {
		return object{
			"schemas": []string{schemaSchema}, "id": id, "name": name, "description": name, "attributes": attributes,
			"meta": metaOutput{ResourceType: "Schema", Location: s.URL() + "/Schemas/" + id},
		}
	}
	unique := object{"required": true, "uniqueness": "server"}
	return map[string]object{
		userSchema: of(userSchema, "User",
			text("userName", unique),
			text("externalId", object{"caseExact": true, "uniqueness": "server"}),
			text("displayName", nil),
			attribute("name", "complex", nil, text("formatted", nil), text("givenName", nil), text("familyName", nil)),
			attribute("emails", "complex", object{"multiValued": true},
				text("value", nil), text("type", nil), attribute("primary", "boolean", nil)),
			attribute("active", "boolean", nil),
		),
		groupSchema: of(groupSchema, "Group",
			text("displayName", unique),
			text("externalId", object{"caseExact": true, "uniqueness": "server"}),
			attribute("members", "complex", object{"multiValued": true},
				text("value", object{"mutability": "immutable"}),
				text("display", object{"mutability": "readOnly"}),
				attribute("$ref", "reference", object{"mutability": "readOnly", "referenceTypes": []string{"User"}})),
		),
	}
}

func (s *Service) listSchemas(r *http.Request) (answer, error) {
	all := s.schemas()
	return list(r, 2, 1, []any{all[userSchema], all[groupSchema]}), nil
}

func (s *Service) getSchema(r *http.Request) (answer, error) { return one("schema", s.schemas(), r) }

// one answers with an element of a discovery list. Ids of schemas are URNs, which are compared
// without case.
func one(kind string, all map[string]object, r *http.Request) (answer, error) {
	for id, found := range all {
		if strings.EqualFold(id, r.PathValue("id")) {
			return answer{status: http.StatusOK, body: found}, nil
		}
	}
	return answer{}, fault.New(fault.NotFound, "No such %s", kind)
}
