package registry_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// entryOf makes an entry with the versions 1 to n.
func (c *client) entryOf(name string, n int) string {
	c.t.Helper()
	id := c.made(name, "1", skill(c.t, name+" 1"))
	for i := 2; i <= n; i++ {
		c.push(id, fmt.Sprint(i), skill(c.t, fmt.Sprintf("%s %d", name, i))).want(http.StatusCreated)
	}
	return id
}

// flags lists the versions, newest first, and whether each is current and
// whether it was rolled back: "c" and "r".
func (c *client) flags(id string) string {
	c.t.Helper()
	var b strings.Builder
	for _, v := range c.get(entryPath(id) + "/versions").want(http.StatusOK).list("versions") {
		b.WriteString(" " + text(v, "version"))
		if v["is_current"] == true {
			b.WriteString("c")
		}
		if v["rolled_back"] == true {
			b.WriteString("r")
		}
	}
	return b.String()
}

func TestRollback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme", access.Pro)
		id := ada.entryOf("pdf", 3)
		path := entryPath(id) + "/rollback"
		step := func(name string, body any, version, from, flags string) object {
			got := ada.post(path, body).want(http.StatusOK).object()
			wantKeys(t, got, "entry", "version", "rolled_back_from", "reason")
			if text(got, "entry", "id") != id || text(got, "version", "version") != version || text(got, "rolled_back_from") != from ||
				at(got, "version", "is_current") != true || at(got, "version", "rolled_back") != false {
				t.Errorf("%s: %v", name, got)
			}
			if now := ada.flags(id); now != flags {
				t.Errorf("%s: versions%s, want%s", name, now, flags)
			}
			return got
		}
		got := step("omitted", nil, "2", "3", " 3r 2c 1")
		if got["reason"] != nil {
			t.Errorf("reason %v, want null", got["reason"])
		}
		got = step("omitted again", object{"reason": "fails on empty input"}, "1", "2", " 3r 2r 1c")
		if got["reason"] != "fails on empty input" {
			t.Errorf("reason %v", got["reason"])
		}
		ada.post(path, nil).wantError(http.StatusConflict, "Nothing to roll back to: 1 is the first version")
		ada.post(path, object{"target_version": "1"}).wantError(http.StatusConflict, "Version 1 is current already")
		ada.post(path, object{"target_version": "9"}).wantError(http.StatusNotFound, "Version 9 not found")
		step("target", object{"target_version": "3"}, "3", "1", " 3c 2r 1r")
		ada.push(id, "4", skill(t, "4.")).want(http.StatusCreated)
		if now := ada.flags(id); now != " 4c 3 2r 1r" {
			t.Errorf("after a push: versions%s", now)
		}
		step("nulls", object{"target_version": nil, "reason": nil}, "3", "4", " 4r 3c 2r 1r")

		var records []string
		for _, r := range ada.get(entryPath(id)).list("rollbacks") {
			wantKeys(t, r, "from_version", "to_version", "reason", "rolled_back_by", "rolled_back_at")
			if text(r, "rolled_back_by") != ada.user.ID || !wireTime.MatchString(text(r, "rolled_back_at")) {
				t.Errorf("record %v", r)
			}
			records = append(records, fmt.Sprintf("%s>%s %v", r["from_version"], r["to_version"], r["reason"]))
		}
		want := []string{"4>3 <nil>", "1>3 <nil>", "2>1 fails on empty input", "3>2 <nil>"}
		if diff := cmp.Diff(want, records); diff != "" {
			t.Errorf("rollbacks (-want +got):\n%s", diff)
		}
	})
}

func TestRollbackRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme", access.Pro)
		id := ada.entryOf("pdf", 2)
		path := entryPath(id) + "/rollback"
		ada.post(path, object{"target_version": 1}).wantInvalid("target_version", "target_version")
		ada.post(path, object{"reason": strings.Repeat("x", 1001)}).wantInvalid("reason", "at most 1000 characters")
		ada.post(path, []int{1}).wantInvalid("", "the body")
		ada.send(http.MethodPost, path, "application/json", []byte("{")).wantInvalid("", "not valid JSON")
		ada.post(entryPath(uuid.NewString())+"/rollback", nil).wantError(http.StatusNotFound, "Registry entry not found")
		if now := ada.flags(id); now != " 2c 1" {
			t.Errorf("versions%s, want no change", now)
		}
		ada.post(path, object{"reason": "a\x00b", "unknown": true}).want(http.StatusOK)
	})
}
