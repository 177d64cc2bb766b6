// Package marketplace serves the skills of a shelf as a plugin marketplace of Claude
// Code: a marketplace.json with one plugin per skill, whose source is a zip, and one
// plugin with all of them. It owns no tables.
package marketplace

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/plugins"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// Service serves marketplaces.
type Service struct {
	Catalog *catalog.Service
	// Memory bounds what making archives takes together with other large answers.
	Memory *httpapi.Budget

	once      sync.Once
	shops     *catalog.Cache[*Shop]
	documents *catalog.Cache[*catalog.Document]
}

const (
	// maxShops and maxDocuments bound the bytes of what is kept in memory.
	maxShops     = 16 << 20
	maxDocuments = 32 << 20
	// pluginSize is what a plugin of a Shop takes beside its texts.
	pluginSize = 900
	// maxBundle bounds the files of the plugin with everything: clients take 256 MiB.
	maxBundle = 64 << 20
	// maxHashed is how many versions from before there were hashes get theirs at once.
	maxHashed = 200
)

// init runs before the first use, from Mount or from Shop: gitrepo may come first.
func (s *Service) init() {
	r := s.Catalog.Registry
	s.shops = &catalog.Cache[*Shop]{Registry: r, Limit: maxShops}
	s.documents = &catalog.Cache[*catalog.Document]{Registry: r, Limit: maxDocuments}
}

// Mount adds the marketplaces.
func (s *Service) Mount(a *httpapi.API) {
	s.once.Do(s.init)
	for _, base := range catalog.Bases() {
		a.Handle("GET "+base+"/marketplace.json", catalog.Limit(), s.Catalog.Handler(s.handleDocument))
		a.Handle("GET "+base+"/.well-known/plugins/{name}/{file}", catalog.Limit(), s.Catalog.Handler(s.handlePlugin))
		a.Handle("GET "+base+"/.well-known/plugins/{file}", catalog.Limit(), s.Catalog.Handler(s.handleBundle))
	}
}

// A Shop is what a marketplace offers.
type Shop struct {
	Name    string // of the marketplace
	Owner   string
	Plugins []Plugin // by name
	// Bundle is the name of the plugin with all skills, and Digest changes with
	// what is in it.
	Bundle, Digest string
}

// A Plugin is one skill as a plugin.
type Plugin struct {
	registry.Listed
	Version string // "" if clients should number it by its content
	SHA256  string // of its zip
	Tree    string // the git tree of its skill; "" if git would refuse it
}

// Shop returns what the marketplace of a shelf offers, from memory while that has
// not changed.
func (s *Service) Shop(ctx context.Context, sh registry.Shelf) (*Shop, error) {
	s.once.Do(s.init)
	return s.shops.Get(ctx, sh, "", func(ctx context.Context) (*Shop, int64, error) {
		list, err := s.Catalog.Listing(ctx, sh)
		if err != nil {
			return nil, 0, err
		}
		return s.shop(ctx, sh, list)
	})
}

// ReadShop is Shop as the database has it now. gitrepo needs it, whose commits must
// never be made of something cached.
func (s *Service) ReadShop(ctx context.Context, sh registry.Shelf) (*Shop, error) {
	list, err := s.Catalog.ReadListing(ctx, sh)
	if err != nil {
		return nil, err
	}
	shop, _, err := s.shop(ctx, sh, list)
	return shop, err
}

func (s *Service) shop(ctx context.Context, sh registry.Shelf, list catalog.Listing) (_ *Shop, size int64, err error) {
	zips, trees, err := s.hashes(ctx, list)
	if err != nil {
		return nil, 0, err
	}
	shop := &Shop{Name: "whetstone", Owner: cmp.Or(sh.OrgName, "Whetstone"), Bundle: plugins.Bundle}
	if sh.OrgName != "" {
		shop.Name = plugins.Marketplace(sh.OrgName)
	}
	// A plugin must not have the name of its marketplace, nor of another plugin.
	// Clients name folders by these, so two equal names would overwrite each other.
	shop.Name, shop.Bundle = free(list, shop.Name, "-marketplace"), free(list, shop.Bundle, "-skills")
	for _, l := range list {
		// An old version gets its hash later, see hashes.
		zip, ok := zips[l.Current.ID]
		if !ok {
			continue
		}
		p := Plugin{Listed: l, SHA256: zip, Tree: trees[l.Current.ID]}
		// Two dots would be a step up in a path.
		if fitVersion.MatchString(l.Current.Version) && !strings.Contains(l.Current.Version, "..") {
			p.Version = l.Current.Version
		}
		shop.Plugins = append(shop.Plugins, p)
		size += int64(pluginSize + len(p.Name) + len(p.Description))
	}
	shop.Digest = Digest(func(yield func(name, zip string) bool) {
		for _, p := range shop.Plugins {
			if !yield(p.Name, p.SHA256) {
				return
			}
		}
	})
	return shop, size, nil
}

// Digest identifies the plugin with all skills by the names and zips of these.
func Digest(zips iter.Seq2[string, string]) string {
	digest := sha256.New()
	for name, zip := range zips {
		fmt.Fprintf(digest, "%s %s\n", name, zip)
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// fitVersion is what clients can name a folder by on every system: no device, and
// no dot at the end.
var fitVersion = regexp.MustCompile(`^v?[0-9]([0-9A-Za-z.+_-]{0,61}[0-9A-Za-z])?$`)

// free returns the name, followed by a suffix if a skill has it.
func free(list catalog.Listing, name, suffix string) string {
	for {
		if _, taken := list.Find(strings.ToLower(name)); !taken {
			return name
		}
		name += suffix
	}
}

// hashes returns the SHA-256 of the zips of current versions and their git trees, by
// version. Versions from before there were such hashes get theirs, some at each call.
func (s *Service) hashes(ctx context.Context, list catalog.Listing) (zips, trees map[string]string, err error) {
	db := s.Catalog.Registry.DB
	ids := make([]string, len(list))
	for i, l := range list {
		ids[i] = l.Current.ID
	}
	if zips, err = treehash.OfVersions(ctx, db, treehash.Plugin, ids); err != nil {
		return nil, nil, err
	}
	if trees, err = treehash.OfVersions(ctx, db, treehash.GitTree, ids); err != nil {
		return nil, nil, err
	}
	made := 0
	for _, l := range list {
		id := l.Current.ID
		_, hasTree := trees[id]
		// A tree may be "": then git would refuse the skill, and that is known.
		if zips[id] != "" && hasTree || made == maxHashed {
			continue
		}
		made++
		// Outside of the transaction: reading an archive may take long.
		hashes, err := s.hash(ctx, l)
		if err != nil {
			return nil, nil, err
		}
		err = db.InTx(ctx, func(tx *store.Tx) error { return treehash.Insert(ctx, tx, l.ID, id, hashes) })
		if err != nil {
			return nil, nil, err
		}
		for _, h := range hashes {
			switch h.Kind {
			case treehash.Plugin:
				zips[id] = h.Hex
			case treehash.GitTree:
				trees[id] = h.Hex
			default: // those of other clients
			}
		}
	}
	return zips, trees, nil
}

// hash reads the archive of a current version.
func (s *Service) hash(ctx context.Context, l registry.Listed) ([]treehash.Hash, error) {
	v, _, err := s.published(ctx, l.Entry, l.Current.Version)
	if err != nil {
		return nil, err
	}
	pkg, err := s.Catalog.Registry.Open(ctx, v)
	if err != nil {
		return nil, err
	}
	defer pkg.Close()
	return treehash.Of(pkg, l.Name)
}

// sum returns the SHA-256 in lower-case hex.
func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

// published finds a version that is neither a candidate nor withdrawn, and returns
// how many bytes its files have.
func (s *Service) published(ctx context.Context, e registry.Entry, version string) (v registry.Version, size int64, err error) {
	if _, v, err = s.Catalog.Registry.Version(ctx, e.OrgID, e.ID, version); err != nil {
		return v, 0, err
	}
	if v.State != registry.Published {
		return v, 0, fault.New(fault.NotFound, "Version %s is %s", v.Version, v.State)
	}
	for _, f := range v.Manifest {
		size += f.Size
	}
	return v, size, nil
}

// pack makes the zip of a version, whose files have that many bytes.
func (s *Service) pack(ctx context.Context, name string, v registry.Version, size int64) ([]byte, error) {
	release, err := s.Memory.Reserve(ctx, 2*size) // the files, and the zip that they are copied to
	if err != nil {
		return nil, err
	}
	defer release()
	var b bytes.Buffer
	out := zip.NewWriter(&b)
	if err := s.add(ctx, out, v, name); err != nil {
		return nil, err
	}
	err = out.Close()
	return b.Bytes(), err
}

type document struct {
	Name   string `json:"name"`
	Owner  owner  `json:"owner"`
	About  string `json:"description"`
	Forced bool   `json:"forceRemoveDeletedPlugins"` // what was withdrawn leaves the machines

	Plugins []entry `json:"plugins"`
}

type owner struct {
	Name string `json:"name"`
}

type entry struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version,omitempty"`
	Source      source `json:"source"`
	Strict      bool   `json:"strict"` // false: this entry is the plugin's manifest
	Homepage    string `json:"homepage,omitempty"`
}

// source is where clients download a plugin. Without a sha256 the client does not
// verify: the plugin with everything is made anew by every server, and its zip need
// not have the same bytes.
type source struct {
	Source string `json:"source"`
	URL    string `json:"url"`
	SHA256 string `json:"sha256,omitempty"`
}

// handleDocument serves marketplace.json. The addresses in it carry the token that
// it was asked with.
func (s *Service) handleDocument(w http.ResponseWriter, r *http.Request, sh catalog.Shelf) error {
	d, err := s.documents.Get(r.Context(), sh.Shelf, sh.Base, func(ctx context.Context) (*catalog.Document, int64, error) {
		shop, err := s.Shop(ctx, sh.Shelf)
		if err != nil {
			return nil, 0, err
		}
		content, err := json.Marshal(shop.document(s.Catalog.PublicURL, sh.Base))
		if err != nil {
			return nil, 0, err
		}
		d, err := catalog.NewDocument(content)
		// A size of 0 is not cached: an anonymous shelf without skills costs nothing
		// to make.
		if err != nil || len(shop.Plugins) == 0 {
			return d, 0, err
		}
		return d, d.Size(), nil
	})
	if err == nil {
		d.ServeJSON(w, r, sh)
	}
	return err
}

// document returns marketplace.json, with the plugin of all skills last. The address
// of a plugin has its hash: a document that is cached somewhere still leads to the
// files that it describes.
func (shop *Shop) document(server, base string) document {
	d := document{
		Name: shop.Name, Owner: owner{shop.Owner}, About: "Skills of " + shop.Owner, Forced: true, Plugins: []entry{},
	}
	for _, p := range shop.Plugins {
		d.Plugins = append(d.Plugins, entry{
			Name: p.Name, Description: p.Description, Version: p.Version,
			Source:   source{"archive", server + base + "/.well-known/plugins/" + p.Name + "/" + p.SHA256 + ".zip", p.SHA256},
			Homepage: server + "/registry/" + p.ID,
		})
	}
	if len(shop.Plugins) > 0 {
		d.Plugins = append(d.Plugins, entry{
			Name: shop.Bundle, Description: "All skills of " + shop.Owner, Version: shop.Digest[:12],
			Source: source{Source: "archive", URL: server + base + "/.well-known/plugins/" + shop.Digest + ".zip"},
		})
	}
	return d
}

// handlePlugin serves the zip of any published version of a skill: a marketplace that
// a client read before a push still works.
func (s *Service) handlePlugin(w http.ResponseWriter, r *http.Request, sh catalog.Shelf) error {
	ctx, registry := r.Context(), s.Catalog.Registry
	hash, ok := strings.CutSuffix(r.PathValue("file"), ".zip")
	if !ok {
		return fault.New(fault.NotFound, "No such file")
	}
	l, err := s.Catalog.Skill(ctx, sh.Shelf, r.PathValue("name"))
	if err != nil {
		return err
	}
	allowed, err := s.Catalog.Allowed(ctx, sh.Shelf, l.ID)
	if err != nil {
		return err
	}
	current, err := treehash.OfVersions(ctx, registry.DB, treehash.Plugin, []string{l.Current.ID})
	if err != nil {
		return err
	}
	version := l.Current.Version
	if current[l.Current.ID] != hash { // another version may have the same files, and be withdrawn
		if version, err = treehash.Find(ctx, registry.DB, l.ID, treehash.Hash{Kind: treehash.Plugin, Hex: hash}); err != nil {
			return err
		}
	}
	if !allowed(version) {
		return fault.New(fault.NotFound, "No such file")
	}
	v, size, err := s.published(ctx, l.Entry, version)
	if err != nil {
		return err
	}
	// Only after the version was found: a withdrawn one is gone for old clients,
	// too.
	if stored.MatchesETag(r.Header.Get("If-None-Match"), hash) {
		serveZip(w, r, sh, hash, nil)
		return nil
	}
	content, err := s.pack(ctx, l.Name, v, size)
	if err != nil {
		return err
	}
	// The client would refuse it, without a word of why.
	if got := sum(content); got != hash {
		return fmt.Errorf("the zip of version %s has the hash %s, not %s", version, got, hash)
	}
	serveZip(w, r, sh, hash, content)
	return nil
}

// serveZip sends a zip, or with nil that the client has it.
func serveZip(w http.ResponseWriter, r *http.Request, sh catalog.Shelf, etag string, content []byte) {
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Cache-Control", sh.CacheControl())
	stored.Serve(w, r, etag, content)
}

// handleBundle serves the plugin with all skills, as the marketplace offers it now.
func (s *Service) handleBundle(w http.ResponseWriter, r *http.Request, sh catalog.Shelf) error {
	shop, err := s.Shop(r.Context(), sh.Shelf)
	if err != nil {
		return err
	}
	// Only the newest: a client with an older document reads it again.
	if r.PathValue("file") != shop.Digest+".zip" || len(shop.Plugins) == 0 {
		return fault.New(fault.NotFound, "No such file")
	}
	if stored.MatchesETag(r.Header.Get("If-None-Match"), shop.Digest) {
		serveZip(w, r, sh, shop.Digest, nil)
		return nil
	}
	release, err := s.Memory.Reserve(r.Context(), maxBundle)
	if err != nil {
		return err
	}
	defer release()
	content, err := s.bundle(r.Context(), shop)
	if err == nil {
		serveZip(w, r, sh, shop.Digest, content)
	}
	return err
}

// bundle makes a zip with the skills of a shop in folders of their own. Where there
// are more than fit, it has the first ones.
func (s *Service) bundle(ctx context.Context, shop *Shop) ([]byte, error) {
	var b bytes.Buffer
	out := zip.NewWriter(&b)
	for _, p := range shop.Plugins {
		v, size, err := s.published(ctx, p.Entry, p.Current.Version)
		if err != nil {
			return nil, err
		}
		// A smaller skill that follows may still fit.
		if int64(b.Len())+size > maxBundle {
			continue
		}
		if err := s.add(ctx, out, v, p.Name); err != nil {
			return nil, err
		}
	}
	err := out.Close()
	return b.Bytes(), err
}

// add adds the files of a skill's version to a zip.
func (s *Service) add(ctx context.Context, out *zip.Writer, v registry.Version, skill string) error {
	pkg, err := s.Catalog.Registry.Open(ctx, v)
	if err != nil {
		return err
	}
	defer pkg.Close()
	return pkg.AddTo(out, treehash.PluginFolder(skill))
}
