package scim_test

import (
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// scimJSON is the content type that providers send.
const scimJSON = "Content-Type: application/scim+json; charset=utf-8"

// TestOkta sends the requests of Okta's provisioning, in its order.
func TestOkta(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		p := w.provider(ada)
		// Test of the connection, and the search before a user is assigned.
		p.Get(users + "?startIndex=1&count=2").Want(http.StatusOK)
		none := p.Get(users + `?filter=userName%20eq%20%22test.user%40okta.local%22&startIndex=1&count=100`).Want(http.StatusOK)
		if none.Object()["totalResults"] != 0.0 || none.Object()["Resources"] == nil {
			t.Errorf("%s", none.Body)
		}
		const user = `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"test.user@okta.local",
			"name":{"givenName":"Test","familyName":"User"},"emails":[{"primary":true,"value":"test.user@okta.local","type":"work"}],
			"displayName":"Test User","locale":"en-US","externalId":"00ujl29u0le5T6Aj10h7","groups":[],"password":"1mz050nq","active":true}`
		made := p.Do(http.MethodPost, users, user, scimJSON).Want(http.StatusCreated)
		apptest.WantKeys(t, made.Object(), "schemas", "id", "externalId", "userName", "name", "displayName", "emails", "active", "meta")
		if found := w.TablesWith("1mz050nq"); len(found) > 0 {
			t.Errorf("the password is in %v", found)
		}
		id := made.Text("id")
		// A change of the profile comes as the whole user.
		const changed = `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"id":"23a35c27-23d3-4c03-b4c5-6443c09e7173",
			"userName":"test.user@okta.local","name":{"givenName":"Another","middleName":"Excited","familyName":"User"},
			"emails":[{"primary":true,"value":"test.user@okta.local","type":"work","display":"test.user@okta.local"}],
			"active":true,"groups":[],"meta":{"resourceType":"User"}}`
		again := p.Do(http.MethodPut, users+"/"+id, changed, scimJSON).Want(http.StatusOK)
		if again.Text("id") != id || again.Text("name", "givenName") != "Another" || again.Text("externalId") != "00ujl29u0le5T6Aj10h7" {
			t.Errorf("%s", again.Body)
		}
		if u, err := w.Auth.UserByEmail(t.Context(), ada.Org.ID, "test.user@okta.local"); err != nil || u.Name != "Another User" || u.Role != access.Member {
			t.Errorf("%+v, %v", u, err)
		}
		// Groups are pushed, renamed, and their members changed.
		group := p.Do(http.MethodPost, groups, `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group"],"displayName":"Test SCIMv2","members":[]}`, scimJSON).
			Want(http.StatusCreated).Text("id")
		p.Do(http.MethodPatch, groups+"/"+group, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace",
			"value":{"id":"`+group+`","displayName":"Test SCIMv2 renamed"}}]}`, scimJSON).Want(http.StatusNoContent)
		p.Do(http.MethodPatch, groups+"/"+group, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"add",
			"path":"members","value":[{"value":"`+id+`","display":"test.user@okta.local"}]}]}`, scimJSON).Want(http.StatusNoContent)
		wantMembers(t, p, group, id)
		p.Do(http.MethodPatch, groups+"/"+group, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[
			{"op":"remove","path":"members[value eq \"`+id+`\"]"},{"op":"add","path":"members","value":[]}]}`, scimJSON).Want(http.StatusNoContent)
		wantMembers(t, p, group)
		p.Do(http.MethodPut, groups+"/"+group, `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group"],"id":"`+group+`","displayName":"Test SCIMv2",
			"members":[{"value":"`+id+`","display":"test.user@okta.local"}]}`, scimJSON).Want(http.StatusOK)
		wantMembers(t, p, group, id)
		// The user is unassigned, and assigned again.
		p.Do(http.MethodPatch, users+"/"+id, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace","value":{"active":false}}]}`, scimJSON).
			Want(http.StatusOK)
		if w.roleOf(ada.Org, "test.user@okta.local") != "" {
			t.Error("is a member")
		}
		p.Do(http.MethodPut, users+"/"+id, changed, scimJSON).Want(http.StatusOK)
		if w.roleOf(ada.Org, "test.user@okta.local") != access.Member {
			t.Error("is no member")
		}
		p.Do(http.MethodDelete, groups+"/"+group, nil).Want(http.StatusNoContent)
	})
}

// TestEntra sends the requests of Entra ID's provisioning, in its order.
func TestEntra(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		p := w.provider(ada)
		p.Get(users + `?filter=userName+eq+%22f9d0f1c2-0001-4f65-9a4b-0123456789ab%22`).Want(http.StatusOK)
		const user = `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User","urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
			"externalId":"0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef","userName":"Test_User_ab6490ee@testuser.com","active":true,
			"addresses":[],"displayName":"Test User","emails":[{"primary":true,"type":"work","value":"Test_User_fd0ea19b@testuser.com"}],
			"meta":{"resourceType":"User"},"name":{"formatted":"givenName familyName","familyName":"familyName","givenName":"givenName"},
			"roles":[],"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User":{"department":"Sales","manager":{"value":"x"}}}`
		id := p.Do(http.MethodPost, users, user, scimJSON).Want(http.StatusCreated).Text("id")
		wantProblem(t, p.Do(http.MethodPost, users, user, scimJSON), http.StatusConflict, "uniqueness", "exists")
		found := p.Get(users + `?filter=externalId+eq+%220a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef%22`).Want(http.StatusOK)
		if found.Object()["totalResults"] != 1.0 {
			t.Errorf("%s", found.Body)
		}
		// The documented form of changes.
		patched := p.Do(http.MethodPatch, users+"/"+id, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[
			{"op":"Replace","path":"emails[type eq \"work\"].value","value":"updatedEmail@microsoft.com"},
			{"op":"Replace","path":"name.familyName","value":"updatedFamilyName"},
			{"op":"Add","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department","value":"Legal"},
			{"op":"Add","path":"title","value":"Engineer"}]}`, scimJSON).Want(http.StatusOK)
		if patched.Text("name", "familyName") != "updatedFamilyName" || w.roleOf(ada.Org, "updatedemail@microsoft.com") != access.Member {
			t.Errorf("%s", patched.Body)
		}
		p.Do(http.MethodPatch, users+"/"+id, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[
			{"op":"Replace","path":"userName","value":"5b50642d-79fc-4410-9e90-4c077cdd1a59@testuser.com"}]}`, scimJSON).Want(http.StatusOK)
		// Without a path, with attributes as paths.
		pathless := p.Do(http.MethodPatch, users+"/"+id, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace","value":{
			"displayName":"Shown","name.givenName":"Given","emails[type eq \"work\"].value":"third@microsoft.com","active":true,
			"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department":"HR","urn:ietf:params:scim:schemas:extension:enterprise:2.0:User":{}}}]}`, scimJSON).
			Want(http.StatusOK)
		if pathless.Text("name", "givenName") != "Given" || w.roleOf(ada.Org, "third@microsoft.com") != access.Member {
			t.Errorf("%s", pathless.Body)
		}
		// An address that is not there yet is added.
		added := p.Do(http.MethodPatch, users+"/"+id, `{"Operations":[{"op":"Add","path":"emails[type eq \"other\"].value","value":"fourth@microsoft.com"}]}`, scimJSON).
			Want(http.StatusOK)
		if len(added.List("emails")) != 2 || w.roleOf(ada.Org, "third@microsoft.com") != access.Member {
			t.Errorf("%s", added.Body)
		}

		const group = `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group","http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
			"externalId":"8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159","displayName":"displayName","meta":{"resourceType":"Group"}}`
		gid := p.Do(http.MethodPost, groups, group, scimJSON).Want(http.StatusCreated).Text("id")
		p.Get(groups + `?excludedAttributes=members&filter=displayName+eq+%22displayName%22`).Want(http.StatusOK)
		p.Do(http.MethodPatch, groups+"/"+gid, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[
			{"op":"Replace","path":"displayName","value":"1879db59-3bdf-4490-ad68-ab880a269474updatedDisplayName"}]}`, scimJSON).Want(http.StatusNoContent)
		p.Do(http.MethodPatch, groups+"/"+gid, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[
			{"op":"Add","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}]}`, scimJSON).Want(http.StatusNoContent)
		wantMembers(t, p, gid, id)
		p.Do(http.MethodPatch, groups+"/"+gid, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[
			{"op":"Remove","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}]}`, scimJSON).Want(http.StatusNoContent)
		wantMembers(t, p, gid)

		// Disabled, as text and with a capital; then deleted.
		disabled := p.Do(http.MethodPatch, users+"/"+id, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[
			{"op":"Replace","path":"active","value":"False"}]}`, scimJSON).Want(http.StatusOK)
		if disabled.Object()["active"] != false || w.roleOf(ada.Org, "third@microsoft.com") != "" {
			t.Errorf("%s", disabled.Body)
		}
		p.Do(http.MethodDelete, users+"/"+id, nil).Want(http.StatusNoContent)
		p.Do(http.MethodDelete, groups+"/"+gid, nil).Want(http.StatusNoContent)
		wantProblem(t, p.Get(groups+"/"+gid), http.StatusNotFound, "", "Group not found")
	})
}
