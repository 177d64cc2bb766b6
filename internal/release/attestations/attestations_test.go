package attestations_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
)

type object = apptest.Object

func attach(w *registrytest.World) *attestations.Service {
	s := &attestations.Service{
		DB: w.DB, Jobs: w.Queue, Registry: w.Registry, Seal: sealtest.Keyring(), PublicURL: apptest.PublicURL,
		CodeHost: "https://git.example.org", Log: w.Log,
	}
	w.Registry.OnVersion = s
	s.Register()
	s.Mount(w.API)
	return s
}

func pathOf(entryID, version string) string {
	return registrytest.VersionPath(entryID, version) + "/attestations"
}

// envelopes reads the attestations of a version.
func envelopes(c *registrytest.Client, entryID, version string) []dsse.Envelope {
	c.T.Helper()
	var out struct{ Attestations []dsse.Envelope }
	if err := json.Unmarshal(c.Get(pathOf(entryID, version)).Want(http.StatusOK).Body, &out); err != nil {
		c.T.Fatalf("%v", err)
	}
	return out.Attestations
}

func texts(w *registrytest.World, query string) []string {
	w.T.Helper()
	rows, err := w.DB.Query(w.T.Context(), query)
	all, err := store.All(rows, err, store.Value[string])
	if err != nil {
		w.T.Fatal(err)
	}
	return all
}

type keyFile struct{ Keys []attestations.KeyOutput }

func keysOf(c *registrytest.Client) keyFile {
	c.T.Helper()
	var out keyFile
	if err := json.Unmarshal(c.Get(attestations.KeysPath).Want(http.StatusOK).Body, &out); err != nil {
		c.T.Fatalf("%v", err)
	}
	return out
}

// trusted are the keys that are not revoked.
func (f keyFile) trusted(t apptest.T) (keys []dsse.PublicKey) {
	t.Helper()
	for _, k := range f.Keys {
		if k.RevokedAt == nil {
			parsed, err := dsse.ParsePublicKeys([]byte(k.PEM))
			if err != nil || parsed[0].ID != k.KeyID {
				t.Fatalf("key %s is %v, %v", k.KeyID, parsed, err)
			}
			keys = append(keys, parsed...)
		}
	}
	return keys
}

func read(t apptest.T, e dsse.Envelope, keys []dsse.PublicKey) intoto.Read {
	t.Helper()
	payload, _, err := e.Verify(intoto.PayloadType, keys)
	if err != nil {
		t.Fatalf("%v", err)
	}
	r, err := intoto.Parse(payload)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return r
}

func TestProvenance(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		attach(w)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		archive := registrytest.Skill(t, "Reads.", "scripts/x.sh", "echo hi\n")
		id := ada.Made("pdf", "1.0.0", archive, object{"source_repo": "acme/skills"})
		got := envelopes(ada, id, "1.0.0")
		if len(got) != 1 {
			t.Fatalf("%d attestations", len(got))
		}
		r := read(t, got[0], keysOf(w.Anonymous()).trusted(t))
		sum := registrytest.Sum(archive)
		if err := r.Check(intoto.Version{Organisation: "acme", Name: "pdf", Version: "1.0.0"}, sum); err != nil {
			t.Error(err)
		}
		if r.Subject[0].Name != "acme/pdf@1.0.0" || r.Subject[0].Digest["sha256"] != sum || len(r.DirHash()) != 64 {
			t.Errorf("subject %v", r.Subject)
		}
		if last := r.Subject[len(r.Subject)-1]; last.Name != "acme/pdf@1.0.0?archive=plugin" || len(last.Digest["sha256"]) != 64 {
			t.Errorf("the zip of marketplaces is not signed: %v", r.Subject)
		}
		version := ada.Versions(id)["1.0.0"]
		p := r.Provenance
		if diff := cmp.Diff(intoto.ExternalParameters{
			Version: intoto.Version{Organisation: "acme", Name: "pdf", Version: "1.0.0"}, Publisher: "api",
			Claimed: p.BuildDefinition.ExternalParameters.Claimed,
		}, p.BuildDefinition.ExternalParameters); diff != "" {
			t.Error(diff)
		}
		if p.BuildDefinition.BuildType != intoto.BuildPush || p.RunDetails.Builder.ID != apptest.PublicURL ||
			p.RunDetails.Metadata.InvocationID != version["id"] || len(p.BuildDefinition.ResolvedDependencies) != 0 {
			t.Errorf("provenance %+v", p)
		}
		payload, err := base64.StdEncoding.DecodeString(got[0].Payload)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{ada.User.ID, ada.User.Email, ada.KeyID, ada.Key, ada.Org.ID} {
			if strings.Contains(string(payload), secret) {
				t.Errorf("the statement has %s: %s", secret, payload)
			}
		}

		// Whoever may read the version may read what is signed about it.
		bob.Get(pathOf(id, "1.0.0")).Want(http.StatusNotFound)
		w.Anonymous().Get(pathOf(id, "1.0.0")).Want(http.StatusUnauthorized)
		ada.Get(pathOf(id, "2.0.0")).Want(http.StatusNotFound)
		public := ada.Made("open", "1.0.0", archive, object{"visibility": "public"})
		if n := len(envelopes(bob, public, "1.0.0")); n != 1 {
			t.Errorf("%d attestations of a public version", n)
		}

		// A push that is repeated signs nothing again; a version that is rolled forward is signed.
		ada.Push(id, "1.0.0", archive).Want(http.StatusOK)
		if diff := cmp.Diff(got, envelopes(ada, id, "1.0.0")); diff != "" {
			t.Error(diff)
		}
		ada.Pushed(id, "1.1.0", registrytest.Skill(t, "Worse."))
		ada.Post(registrytest.EntryPath(id)+"/rollback", object{"roll_forward": true}).Want(http.StatusOK)
		if r := read(t, envelopes(ada, id, "1.1.1")[0], keysOf(w.Anonymous()).trusted(t)); r.Subject[0].Name != "acme/pdf@1.1.1" ||
			r.Subject[0].Digest["sha256"] != sum {
			t.Errorf("rolled forward: %v", r.Subject)
		}

		// A deleted entry takes them along; one that is made again has its own.
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		if n := w.Count("attestations"); n != 1 {
			t.Errorf("%d attestations are left, want that of the public entry", n)
		}
		again := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "Other."))
		fresh := read(t, envelopes(ada, again, "1.0.0")[0], keysOf(w.Anonymous()).trusted(t))
		if err := fresh.Check(intoto.Version{Organisation: "acme", Name: "pdf", Version: "1.0.0"}, sum); err == nil {
			t.Error("the old archive passes for the new version")
		}
		if err := r.Check(intoto.Version{Organisation: "acme", Name: "pdf", Version: "1.0.0"}, fresh.Subject[0].Digest["sha256"]); err == nil {
			t.Error("the old statement passes for the new archive")
		}
	})
}

// TestCodeHost has the provenance of a version that was read from a repository.
func TestCodeHost(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		s := attach(w)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "Reads."))
		const commit = "0123456789abcdef0123456789abcdef01234567"
		sign := func(source, ref string, commit, path any) intoto.ExternalParameters {
			t.Helper()
			w.Exec(`DELETE FROM attestations`)
			w.Exec(`UPDATE registry_versions SET source = $1, source_repo = 'acme/skills', source_ref = $2, source_commit = $3,
				source_path = $4`, source, ref, commit, path)
			versionID := apptest.Text(ada.Versions(id)["1.0.0"], "id")
			for range 2 { // it may run twice
				if err := db.InTx(t.Context(), func(tx *store.Tx) error { return s.SignVersion(t.Context(), tx, versionID) }); err != nil {
					t.Fatal(err)
				}
			}
			all := envelopes(ada, id, "1.0.0")
			if len(all) != 1 {
				t.Fatalf("%d attestations", len(all))
			}
			p := read(t, all[0], keysOf(ada).trusted(t)).Provenance
			var digests []intoto.Dependency
			if p.BuildDefinition.BuildType == intoto.BuildCodeHost {
				digests = []intoto.Dependency{
					{URI: "git+https://git.example.org/acme/skills", Digest: map[string]string{"gitCommit": "0123456789abcdef0123456789abcdef01234567"}},
				}
			}
			if diff := cmp.Diff(digests, p.BuildDefinition.ResolvedDependencies); diff != "" {
				t.Error(diff)
			}
			return p.BuildDefinition.ExternalParameters
		}
		of := intoto.Version{Organisation: "acme", Name: "pdf", Version: "1.0.0"}
		for _, c := range []struct {
			got, want intoto.ExternalParameters
		}{
			{sign("repohost", "v1.0.0", commit, "skills/pdf"), intoto.ExternalParameters{
				Version: of, Publisher: "code-host", Repository: "https://git.example.org/acme/skills", Ref: "v1.0.0", Path: "skills/pdf",
			}},
			{sign("repohost-direct", commit, nil, nil), intoto.ExternalParameters{ // from before commits were kept
				Version: of, Publisher: "code-host-sync", Repository: "https://git.example.org/acme/skills", Ref: commit,
			}},
			{sign("cli", "v9", nil, nil), intoto.ExternalParameters{
				Version: of, Publisher: "api", Claimed: &intoto.Claims{Repository: "acme/skills", Ref: "v9"},
			}},
		} {
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestKeysFile(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		attach(w)
		other := w.Replica()
		attach(other)
		// Both replicas are asked for the first time at the same moment.
		var wg sync.WaitGroup
		found := make([]keyFile, 8)
		for i := range found {
			of := []*registrytest.World{w, other}[i%2]
			wg.Go(func() { found[i] = keysOf(of.Anonymous()) })
		}
		wg.Wait()
		for _, f := range found {
			if len(f.Keys) != 1 || f.Keys[0].KeyID != found[0].Keys[0].KeyID {
				t.Fatalf("keys %v and %v", found[0], f)
			}
		}
		a := w.Anonymous().Get(attestations.KeysPath).Want(http.StatusOK)
		if got := a.Header.Get("Cache-Control"); got != "public, max-age=300" {
			t.Errorf("Cache-Control: %s", got)
		}
		w.Anonymous().Do(http.MethodGet, attestations.KeysPath, nil, "If-None-Match: "+a.Header.Get("ETag")).Want(http.StatusNotModified)
		apptest.WantKeys(t, a.List("keys")[0], "keyid", "algorithm", "pem", "jwk", "status", "created_at", "not_after", "revoked_at", "endorsed_by")
		if k := found[0].Keys[0]; k.Status != "active" || k.Algorithm != "ecdsa-p256-sha256" || k.JWK.KeyID != k.KeyID || k.NotAfter != nil {
			t.Errorf("key %+v", k)
		}
		if strings.Contains(string(a.Body), "PRIVATE") || strings.Contains(string(a.Body), "sealed") {
			t.Errorf("the file has more than public keys: %s", a.Body)
		}
		stored := texts(w, `SELECT private_key FROM signing_keys`)
		if len(stored) != 1 || !seal.Sealed([]byte(stored[0])) {
			t.Errorf("the private key is stored as %.60s", stored)
		}
	})
}

func TestRotate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		s := attach(w)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "One."))
		first := keysOf(ada).Keys[0]
		if _, err := s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		ada.Pushed(id, "2", registrytest.Skill(t, "Two."))
		file := keysOf(ada)
		if len(file.Keys) != 2 || file.Keys[0].Status != "active" || file.Keys[1].Status != "retired" ||
			file.Keys[1].KeyID != first.KeyID || file.Keys[1].NotAfter == nil {
			t.Fatalf("keys %+v", file)
		}
		// What the old key signed still verifies, and it vouches for the new one.
		old, err := dsse.ParsePublicKeys([]byte(first.PEM))
		if err != nil {
			t.Fatal(err)
		}
		read(t, envelopes(ada, id, "1")[0], old)
		if _, by, err := envelopes(ada, id, "2")[0].Verify(intoto.PayloadType, file.trusted(t)); err != nil || by.ID != file.Keys[0].KeyID {
			t.Errorf("the second version is signed by %s, %v", by.ID, err)
		}
		payload, _, err := file.Keys[0].EndorsedBy.Verify(attestations.EndorsementType, old)
		var endorsed attestations.Endorsed
		if err != nil || json.Unmarshal(payload, &endorsed) != nil || endorsed.KeyID != file.Keys[0].KeyID || endorsed.PEM != file.Keys[0].PEM {
			t.Errorf("endorsement %s, %v", payload, err)
		}
		if left := texts(w, `SELECT id FROM signing_keys WHERE private_key IS NOT NULL`); len(left) != 1 || left[0] != file.Keys[0].KeyID {
			t.Errorf("private keys are left of %v", left)
		}

		// Rotations at the same time: each makes a key, or says that it lost.
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() { _, errs[i] = s.Rotate(t.Context()) })
		}
		wg.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
			} else if !fault.Is(err, fault.Conflict) {
				t.Error(err)
			}
		}
		active := 0
		file = keysOf(ada)
		for _, k := range file.Keys {
			if k.Status == "active" {
				active++
			}
		}
		if made == 0 || active != 1 || len(file.Keys) != 2+made {
			t.Errorf("%d rotations, %d active of %d keys", made, active, len(file.Keys))
		}
	})
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		s := attach(w)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "One."))
		before := envelopes(ada, id, "1")
		bad := keysOf(ada).Keys[0]
		for _, c := range []struct {
			id, reason string
			want       fault.Kind
		}{
			{bad.KeyID, "", fault.Malformed},
			{bad.KeyID, strings.Repeat("x", 1_001), fault.Malformed},
			{"", "stolen", fault.NotFound},
			{"nothing", "stolen", fault.NotFound},
		} {
			if _, err := s.Revoke(t.Context(), c.id, c.reason); !fault.Is(err, c.want) {
				t.Errorf("revoke %q because of %.10q: %v", c.id, c.reason, err)
			}
		}
		if _, err := s.Revoke(t.Context(), bad.KeyID[:12], "stolen"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Revoke(t.Context(), bad.KeyID, "again"); !fault.Is(err, fault.Conflict) {
			t.Errorf("revoked twice: %v", err)
		}
		file := keysOf(ada)
		if len(file.Keys) != 2 || file.Keys[1].Status != "revoked" || file.Keys[1].RevokedReason != "stolen" || file.Keys[1].RevokedAt == nil ||
			file.Keys[0].EndorsedBy != nil {
			t.Fatalf("keys %+v", file)
		}
		if _, _, err := before[0].Verify(intoto.PayloadType, file.trusted(t)); err == nil {
			t.Error("what the revoked key signed verifies")
		}
		w.Work()
		w.RunNow("attestations.resign")
		after := envelopes(ada, id, "1")
		read(t, after[0], file.trusted(t))
		if len(after) != 1 || after[0].Payload != before[0].Payload {
			t.Errorf("signed again: %v, want the statement of before", after)
		}
	})
}

// TestBackfill signs versions of an older release.
func TestBackfill(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		attach(w)
		ada := w.Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 3)
		want := [][]dsse.Envelope{envelopes(ada, id, "1"), envelopes(ada, id, "2"), envelopes(ada, id, "3")}
		w.Exec(`DELETE FROM attestations`)
		w.Exec(`INSERT INTO attestation_backfill (after_id) VALUES ('')`)
		w.Work()
		for range 2 {
			w.RunNow("attestations.backfill")
			got := [][]dsse.Envelope{envelopes(ada, id, "1"), envelopes(ada, id, "2"), envelopes(ada, id, "3")}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the statements of the backfill differ: %s", diff)
			}
		}
		if n := w.Count("attestation_backfill"); n != 0 {
			t.Error("the backfill is not done")
		}
	})
}

// TestReseal changes the key that seals the private key.
func TestReseal(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		first, second := seal.Generate(), seal.Generate()
		service := func(keys string) *attestations.Service {
			keyring, err := seal.New(keys)
			if err != nil {
				t.Fatal(err)
			}
			return &attestations.Service{DB: db, Seal: keyring}
		}
		keys, err := service(first).Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{1, 0} {
			err := db.InTx(t.Context(), func(tx *store.Tx) error {
				n, err := service(second+","+first).Reseal(t.Context(), tx)
				if n != want {
					t.Errorf("%d values were sealed again, want %d", n, want)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		rotated, err := service(second).Rotate(t.Context())
		if err != nil || rotated.ID == keys[0].ID || time.Since(rotated.CreatedAt) < 0 {
			t.Errorf("rotated to %v, %v", rotated, err)
		}
		if _, err := service(first).Rotate(t.Context()); err == nil {
			t.Error("the old key still opens the private key")
		}
	})
}
