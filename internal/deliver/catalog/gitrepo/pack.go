package gitrepo

import (
	"bytes"
	"context"
	"crypto/sha1" // the checksum of the format
	"encoding/binary"
	"hash"
	"hash/adler32"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/zlib"
	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

// The packs are written here and not by go-git: that keeps every object of a pack in
// memory and looks for deltas between them, which takes far longer than to send
// skills as they are.

const (
	// storedSize is the size up to which an object is not compressed.
	storedSize = 256
	// deltaKind is that of an object that is described by another one of the pack.
	deltaKind = 7
)

// A parcel is a part of a pack: objects as they are sent. It holds the commits and
// the files of marketplaces; the skills' own objects follow it, see sendContent.
type parcel struct {
	data  bytes.Buffer
	seen  map[gittree.Hash]bool
	count int
	last  map[string]version // of the large objects, by path
}

type version struct {
	hash    gittree.Hash
	content []byte
}

// add is a sink. Commits come newest first, so a version is described by its
// successor: clients mostly need the newest, which then needs no delta.
func (p *parcel) add(kind gittree.Kind, path string, content []byte) gittree.Hash {
	sum := gittree.Sum(kind, content)
	if !p.seen[sum] {
		p.seen[sum] = true
		p.count++
		newer, ok := p.last[path]
		if delta := deltaOf(newer.content, content); ok && len(delta) < len(content)/2 {
			appendHeader(&p.data, deltaKind, int64(len(delta)))
			p.data.Write(newer.hash[:])
			deflate(&p.data, delta)
		} else {
			appendHeader(&p.data, byte(kind), int64(len(content)))
			deflate(&p.data, content)
		}
	}
	if path != "" {
		p.last[path] = version{sum, content}
	}
	return sum
}

// appendHeader writes the kind and the size of an object.
func appendHeader(w *bytes.Buffer, kind byte, size int64) {
	// The first byte has the kind and 4 bits of the size, the others 7 bits each,
	// the lowest first (gitformat-pack).
	b := kind<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		w.WriteByte(b | 0x80)
		b = byte(size & 0x7f)
	}
	w.WriteByte(b)
}

// deflate writes content in the format zlib. What is small, mostly hashes, is stored:
// a compressor takes longer to start than to gain anything.
func deflate(w *bytes.Buffer, content []byte) {
	if len(content) <= storedSize {
		n := uint16(len(content))
		// A zlib header, and one block that is final and stored (RFC 1950, RFC 1951,
		// 3.2.4).
		w.Write([]byte{0x78, 0x01, 1, byte(n), byte(n >> 8), ^byte(n), ^byte(n >> 8)})
		w.Write(content)
		w.Write(binary.BigEndian.AppendUint32(nil, adler32.Checksum(content)))
		return
	}
	z := newDeflater(w)
	_, _ = z.Write(content) // a buffer takes everything
	_ = z.Close()
	deflaters.Put(z)
}

var deflaters sync.Pool

// newDeflater returns a writer to be put back into deflaters after Close.
func newDeflater(w io.Writer) *zlib.Writer {
	if z, ok := deflaters.Get().(*zlib.Writer); ok {
		z.Reset(w)
		return z
	}
	z, _ := zlib.NewWriterLevel(w, zlib.BestSpeed) // the level is one
	return z
}

// deltaOf describes content by what it has in common with base at its begin and end.
// Marketplaces change in one line per commit, where that finds nearly all, and a
// general search for matches would cost far more.
func deltaOf(base, content []byte) []byte {
	if len(base) == 0 {
		return content
	}
	n := 0
	for n < min(len(base), len(content)) && base[n] == content[n] {
		n++
	}
	end := 0
	for end < min(len(base), len(content))-n && base[len(base)-1-end] == content[len(content)-1-end] {
		end++
	}
	delta := binary.AppendUvarint(nil, uint64(len(base)))
	delta = binary.AppendUvarint(delta, uint64(len(content)))
	delta = appendCopy(delta, 0, n)
	// An instruction inserts at most 127 bytes.
	for part := range slices.Chunk(content[n:len(content)-end], 127) {
		delta = append(append(delta, byte(len(part))), part...)
	}
	return appendCopy(delta, len(base)-end, end)
}

// appendCopy copies n bytes of the base.
func appendCopy(delta []byte, offset, n int) []byte {
	for n > 0 {
		// All four bytes of the offset and two of the size, which is valid for any
		// copy.
		size := min(n, 0xffff)
		delta = append(delta, 0x80|0x3f, byte(offset), byte(offset>>8), byte(offset>>16), byte(offset>>24),
			byte(size), byte(size>>8))
		offset, n = offset+size, n-size
	}
	return delta
}

// A selection is what one fetch gets.
type selection struct {
	commits []commit // the newest first
	have    int64    // number of a commit whose plugins the client has; -1: none
}

// writePack sends the objects of a selection.
func (s *Service) writePack(ctx context.Context, w io.Writer, r *repo, sel selection) error {
	p := &parcel{seen: map[gittree.Hash]bool{}, last: map[string]version{}}
	known := map[*plugin]bool{}
	if sel.have >= 0 {
		for _, have := range r.at(sel.have) {
			known[have] = true
		}
	}
	// Only while the parcel is made: a slow client must not hold the budget. release
	// may be called twice.
	release, err := s.Memory.Reserve(ctx, r.size())
	if err != nil {
		return err
	}
	defer release()
	var skills []*plugin
	for _, c := range sel.commits {
		p.add(gittree.Commit, "", c.raw())
		plugins := r.at(c.number)
		r.market.put(p.add, plugins)
		for _, plugin := range plugins {
			if !known[plugin] {
				known[plugin] = true
				plugin.put(p.add)
				skills = append(skills, plugin)
			}
		}
	}
	// The contents are garbage from here on.
	p.last = nil
	count, err := s.countObjects(ctx, p, skills)
	if err != nil {
		return err
	}
	out := &summed{w, sha1.New()} // the checksum of the format
	header := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), count)
	if _, err := out.Write(header); err != nil {
		return err
	}
	if _, err := p.data.WriteTo(out); err != nil {
		return err
	}
	release()
	// Skills often share files; an object is sent once in a pack.
	sent := map[gittree.Hash]bool{}
	for _, plugin := range skills {
		if err := s.sendContent(ctx, out, plugin, p.seen, sent); err != nil {
			return err
		}
	}
	_, err = w.Write(out.sum.Sum(nil))
	return err
}

// countObjects returns how many objects a pack has, which is said first: those of a
// parcel, and those of skills.
func (s *Service) countObjects(ctx context.Context, p *parcel, skills []*plugin) (uint32, error) {
	lists := make([][]packed, len(skills))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for i, plugin := range skills {
		group.Go(func() error {
			c, err := s.content(ctx, plugin)
			lists[i] = c.objects
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	count, other := uint32(p.count), map[gittree.Hash]bool{} // far less
	for _, list := range lists {
		for _, o := range list {
			if !p.seen[o.hash] && !other[o.hash] {
				other[o.hash] = true
				count++
			}
		}
	}
	return count, nil
}

// A summed writer hashes what it writes.
type summed struct {
	io.Writer
	sum hash.Hash
}

func (s *summed) Write(b []byte) (int, error) {
	s.sum.Write(b)
	return s.Writer.Write(b)
}
