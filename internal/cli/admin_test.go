package cli_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
)

func TestOrg(t *testing.T) {
	i := installation{t.TempDir()}
	i.must(t, "migrate")
	acme := i.must(t, "org", "create", "acme")
	apptest.WantKeys(t, acme, "id", "name", "plan", "created_at")
	if acme["name"] != "acme" || acme["plan"] != "team" {
		t.Errorf("made %v, want acme on team", acme)
	}
	i.must(t, "org", "create", "small", "--plan", "free")
	if changed := i.must(t, "org", "set-plan", "small", "enterprise"); changed["plan"] != "enterprise" {
		t.Errorf("changed %v, want enterprise", changed)
	}
	var all []map[string]any
	i.mustInto(t, &all, "org", "list")
	if len(all) != 2 || all[0]["id"] != acme["id"] || all[1]["name"] != "small" || all[1]["plan"] != "enterprise" {
		t.Errorf("list %v, want acme and small on enterprise", all)
	}
	r := i.run(t, "org", "list")
	if want := "NAME   PLAN        STORED\nacme   team        0 bytes\nsmall  enterprise  0 bytes\n"; r.stdout != want {
		t.Errorf("list for people %q", r.stdout)
	}
}

// TestNoDatabase: a command in the wrong folder fails, and makes nothing there.
func TestNoDatabase(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, command := range []string{
		"org list", "org create acme", "org set-plan acme pro", "user list", "user create --email a@b.example", "user invite", "key list", "key create",
		"device approve BCDF-GHJK", "rekey", "signing-key list", "signing-key rotate", "repohost claims", "repohost allow acme acme",
		"repohost init-repo acme/skills", "repohost init-repo acme/skills --org acme", "backup whetstone.tar.zst", "doctor",
	} {
		r := run(t, strings.Fields(command)...)
		if command == "doctor" {
			r.code, r.stderr = term.ExitFailed, r.stdout
		}
		if r.code != term.ExitFailed || !regexp.MustCompile(`data/whetstone\.db|folder \./data`).MatchString(r.stderr) {
			t.Errorf("%s: %+v, want a message that names what is missing", command, r)
		}
		if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
			t.Fatalf("%s has made %v, %v", command, made, err)
		}
	}
	run(t, "migrate").want(t, term.ExitOK, "")
	run(t, "org", "create", "acme").want(t, term.ExitOK, "")
}

// TestCommandsAreRecorded: administration commands leave audit entries,
// too.
func TestCommandsAreRecorded(t *testing.T) {
	i := newInstallation(t)
	key := i.must(t, "key", "create", "--org", "acme", "--user", "ada@example.org", "--role", "admin")
	i.must(t, "key", "revoke", "--org", "acme", key["id"].(string))
	i.must(t, "org", "set-plan", "acme", "pro")
	db, err := app.OpenDatabase(t.Context(), config.Database{Data: i.data, DatabaseConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	entries, _, err := (&audit.Service{DB: db}).List(t.Context(), key["org_id"].(string), audit.Filter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s %s %s", e.Actor, e.Via, e.Action))
	}
	want := []string{
		"command cli auth.organisation.set-plan", "command cli auth.key.revoke", "command cli auth.key.create", "command cli auth.user.create",
		"command cli auth.organisation.create",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestUser(t *testing.T) {
	i := newInstallation(t)
	ada := i.must(t, "user", "create", "--org", "acme", "--email", "Ada@Example.org", "--role", "admin")
	apptest.WantKeys(t, ada, "id", "org_id", "email", "name", "role", "created_at")
	if ada["email"] != "ada@example.org" || ada["name"] != "ada" || ada["role"] != "admin" {
		t.Errorf("made %v, want the admin ada", ada)
	}
	if bob := i.must(t, "user", "create", "--org", "acme", "--email", "bob@example.org", "--name", "Bob"); bob["role"] != "member" || bob["name"] != "Bob" {
		t.Errorf("made %v, want the member Bob", bob)
	}
	var all []map[string]any
	i.mustInto(t, &all, "user", "list", "--org", "acme")
	if len(all) != 2 || all[0]["id"] != ada["id"] {
		t.Errorf("list %v, want ada and bob", all)
	}
	r := i.run(t, "user", "list", "--org", "acme")
	if !strings.Contains(r.stdout, "\nbob@example.org  member\n") {
		t.Errorf("list for people %q", r.stdout)
	}
}

func TestKeyCreate(t *testing.T) {
	i := newInstallation(t)
	i.must(t, "user", "create", "--org", "acme", "--email", "ada@example.org", "--role", "admin")
	rawKey := regexp.MustCompile(`^st_live_[0-9A-Za-z]{43}$`)
	all := []any{"read", "write", "telemetry:write", "registry:push", "registry:install", "registry:rollback", "admin", "evidence:read", "registry:delete"}
	for _, c := range []struct {
		name        string
		args        []string
		role        string
		permissions []any
	}{
		{"owner by default", nil, "owner", all},
		{"machine with a role", []string{"--role", "viewer"}, "viewer", all[:1]},
		{"the same machine again", []string{"--role", "viewer"}, "viewer", all[:1]},
		{"person", []string{"--user", "ada@example.org"}, "admin", all[:8]},
		{"person in other letters", []string{"--user", "ADA@example.org", "--role", "admin"}, "admin", all[:8]},
		{"new person", []string{"--user", "eve@example.org", "--role", "member"}, "member", all[:5]},
		{"that reports sessions", []string{"--permissions", "telemetry:write"}, "owner", []any{"telemetry:write"}},
		{"narrowed", []string{"--permissions", "registry:push,read"}, "owner", []any{"registry:push", "read"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := i.must(t, append([]string{"key", "create", "--org", "acme"}, c.args...)...)
			apptest.WantKeys(t, k, "id", "api_key", "org_id", "user_id", "plan", "role", "permissions")
			if !rawKey.MatchString(k["api_key"].(string)) {
				t.Errorf("key %v", k["api_key"])
			}
			got := []any{k["plan"], k["role"], k["permissions"]}
			if diff := cmp.Diff([]any{"pro", c.role, c.permissions}, got); diff != "" {
				t.Errorf("plan, role and permissions (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("for people", func(t *testing.T) {
		r := i.run(t, "key", "create", "--org", "acme")
		if !rawKey.MatchString(strings.TrimSuffix(r.stdout, "\n")) || r.stderr != "" {
			t.Errorf("got %+v, want the key and nothing else", r)
		}
	})
}

func TestRelayKey(t *testing.T) {
	i := newInstallation(t)
	if k := i.must(t, "key", "create", "--org", "acme", "--relay"); k["relay"] != true {
		t.Errorf("made %v, want a relay's key", k)
	}
	i.must(t, "key", "create", "--org", "acme")
	var all []map[string]any
	i.mustInto(t, &all, "key", "list", "--org", "acme")
	if len(all) != 2 || all[0]["relay"] != nil || all[1]["relay"] != true {
		t.Errorf("list %v, want a relay's key and another", all)
	}
}

func TestKeyListAndRevoke(t *testing.T) {
	i := newInstallation(t)
	old := i.must(t, "key", "create", "--org", "acme", "--name", "old")
	i.must(t, "key", "create", "--org", "acme", "--name", "new", "--expires", "30d", "--permissions", "read")

	revoked := i.must(t, "key", "revoke", old["id"].(string), "--org", "acme")
	if diff := cmp.Diff(map[string]any{"id": old["id"], "status": "revoked", "made_keys_left": []any{}}, revoked); diff != "" {
		t.Errorf("revoke (-want +got):\n%s", diff)
	}
	i.must(t, "key", "revoke", old["id"].(string), "--org", "acme") // again is not an error

	var all []map[string]any
	i.mustInto(t, &all, "key", "list", "--org", "acme")
	if len(all) != 2 {
		t.Fatalf("list %v, want two keys", all)
	}
	apptest.WantKeys(t, all[0], "id", "user_id", "name", "prefix", "permissions", "created_at", "last_used_at", "expires_at", "revoked_at", "created_by_key", "login", "allowed_ips")
	newest, oldest := all[0], all[1]
	if newest["name"] != "new" || newest["revoked_at"] != nil || !cmp.Equal(newest["permissions"], []any{"read"}) {
		t.Errorf("newest %v, want new, not revoked, narrowed to read", newest)
	}
	expires, err := time.Parse(time.RFC3339, newest["expires_at"].(string))
	if days := time.Until(expires).Hours() / 24; err != nil || days < 29.9 || days > 30 {
		t.Errorf("expires at %v, want in 30 days", newest["expires_at"])
	}
	if oldest["id"] != old["id"] || oldest["revoked_at"] == nil || oldest["expires_at"] != nil || oldest["permissions"] != nil {
		t.Errorf("oldest %v, want old, revoked, for ever, not narrowed", oldest)
	}
	r := i.run(t, "key", "list", "--org", "acme")
	if want := regexp.MustCompile(`^NAME  KEY +STATE +KEY ID\nnew   st_live_\w{4}\.\.\.  active   \S{36}\nold   st_live_\w{4}\.\.\.  revoked  \S{36}\n$`); !want.MatchString(r.stdout) {
		t.Errorf("list for people %q", r.stdout)
	}
	if strings.Contains(r.stdout, old["api_key"].(string)) {
		t.Error("the list shows a whole key")
	}
}

// TestKeyRevokeCascade: the command says what a key left behind, and revokes it,
// though it be the last of the only owner.
func TestKeyRevokeCascade(t *testing.T) {
	i := newInstallation(t)
	stolen := i.must(t, "key", "create", "--org", "acme")
	db, err := app.OpenDatabase(t.Context(), config.Database{Data: i.data, DatabaseConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	keys := &auth.Service{DB: db}
	thief, err := keys.Authenticate(t.Context(), stolen["api_key"].(string))
	if err != nil {
		t.Fatal(err)
	}
	left, _, err := keys.CreateKeyFor(t.Context(), thief, auth.NewKey{Name: "back door"})
	if err != nil {
		t.Fatal(err)
	}
	id := stolen["id"].(string)
	r := i.run(t, "key", "revoke", id, "--org", "acme")
	if !strings.Contains(r.stdout, "1 key created with it and still active.") || !strings.Contains(r.stdout, left.ID) ||
		!strings.Contains(r.stdout, "--cascade") {
		t.Errorf("for people %q", r.stdout)
	}
	if got := i.must(t, "key", "revoke", id, "--org", "acme"); !cmp.Equal(got["made_keys_left"], []any{left.ID}) {
		t.Errorf("left %v, want %s", got, left.ID)
	}
	if got := i.must(t, "key", "revoke", id, "--org", "acme", "--cascade"); !cmp.Equal(got["made_keys_left"], []any{}) {
		t.Errorf("left %v, want none", got)
	}
	if k, err := keys.Key(t.Context(), left.OrgID, left.ID); err != nil || k.RevokedAt == nil {
		t.Errorf("the key that was made: %+v, %v", k, err)
	}
}

// TestAdminRefused has every error that the commands of administration
// promise, as a person sees it.
func TestAdminRefused(t *testing.T) {
	i := newInstallation(t)
	i.must(t, "org", "create", "empty")
	i.must(t, "user", "create", "--org", "acme", "--email", "ada@example.org")
	const unknownID = "00000000-0000-7000-8000-000000000000"
	for _, c := range []struct {
		name, command string
		code          int
		message       string
	}{
		{"organisation twice", "org create acme", term.ExitFailed, "An organisation named acme exists"},
		{"organisation without a fit name", "org create /", term.ExitUsage, "name must be 1 to 100 letters, digits, spaces, dots, hyphens or underscores, the first a letter or digit"},
		{"plan of an unknown organisation", "org set-plan none pro", term.ExitFailed, "Organisation none not found"},
		{"person twice", "user create --org acme --email ADA@example.org", term.ExitFailed, "A user with the address ada@example.org exists in this organisation"},
		{"person without an address", "user create --org acme --email ada", term.ExitUsage, "email must be one address, like ada@example.org"},
		{"person of an unknown organisation", "user create --org none --email a@b.example", term.ExitFailed, "Organisation none not found"},
		{"people of an unknown organisation", "user list --org none", term.ExitFailed, "Organisation none not found"},
		{"key of an unknown organisation", "key create --org none", term.ExitFailed, "Organisation none not found"},
		{"keys of an unknown organisation", "key list --org none", term.ExitFailed, "Organisation none not found"},
		{"no default organisation", "key list", term.ExitFailed, "Organisation default not found"},
		{"unknown role", "key create --org acme --role cook", term.ExitUsage, "role must be viewer, member, admin or owner"},
		{"another role", "key create --org acme --user ada@example.org --role owner", term.ExitFailed, "ada@example.org has the role member, not owner; leave --role out, or name another person"},
		{"key of an unknown person", "key create --org acme --user new@example.org", term.ExitFailed, "No user has the address new@example.org; to add them, give a role, e.g. --role member"},
		{"permission beyond the role", "key create --org acme --user ada@example.org --permissions registry:delete", term.ExitUsage, "the role member does not have the permission registry:delete"},
		{"unknown permission", "key create --org acme --permissions fly", term.ExitUsage, `unknown permission "fly"; known are read write telemetry:write registry:push registry:install registry:rollback admin evidence:read registry:delete`},
		{"unknown key", "key revoke --org acme " + unknownID, term.ExitFailed, "Key not found"},
		{"key that is no id", "key revoke --org acme x", term.ExitFailed, "Key not found"},
		{"unknown login", "device approve --org acme BCDF-GHJK --user ada@example.org", term.ExitFailed, "No login waits for this code; start the login again"},
		{"login without an owner", "device approve --org empty BCDF-GHJK", term.ExitFailed, "The organisation empty has no owner; name a user with --user"},
		{"login of an unknown person", "device deny --org acme BCDF-GHJK --user eve@example.org", term.ExitFailed, "User eve@example.org not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i.run(t, strings.Fields(c.command)...).wantFailure(t, c.code, c.message)
		})
	}
	t.Run("key that never lives", func(t *testing.T) {
		r := i.run(t, "key", "create", "--org", "acme", "--expires", "0s")
		if r.code != term.ExitUsage || !strings.Contains(r.stderr, `"0s" is not a duration like`) {
			t.Errorf("got %+v, want exit code 2", r)
		}
	})
}

func TestDevice(t *testing.T) {
	i := newInstallation(t)
	owner := i.must(t, "key", "create", "--org", "acme", "--role", "owner")
	db, err := app.OpenDatabase(t.Context(), config.Database{Data: i.data, DatabaseConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	logins := &auth.Service{DB: db}
	for _, c := range []struct{ command, status string }{
		{"approve", "approved"},
		{"deny", "denied"},
	} {
		t.Run(c.command, func(t *testing.T) {
			login, err := logins.StartDevice(t.Context(), "test", "")
			if err != nil {
				t.Fatal(err)
			}
			got := i.must(t, "device", c.command, strings.ToLower(login.UserCode), "--org", "acme")
			if diff := cmp.Diff(map[string]any{"status": c.status, "user_id": owner["user_id"]}, got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			result, err := logins.PollDevice(t.Context(), login.DeviceCode)
			if err != nil || string(result.Status) != c.status || (result.RawKey != "") != (c.command == "approve") {
				t.Errorf("poll: %+v, %v", result, err)
			}
			r := i.run(t, "device", c.command, login.UserCode, "--org", "acme")
			r.wantFailure(t, term.ExitFailed, "No login waits for this code; start the login again")
		})
	}
}
