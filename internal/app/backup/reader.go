package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A reader reads a backup and verifies every checksum. All problems of the file are
// fault.Malformed. The file is untrusted until verifySignature, which is at its end: what is
// read before is only staged.
type reader struct {
	zst    *zstd.Decoder
	tar    *tar.Reader
	hash   hash.Hash       // of the current member
	name   string          // of that member; "" if there is none
	sums   strings.Builder // checksums of the members since the last list
	list   int
	all    hash.Hash
	header Header

	manifest  []byte // as it was signed
	signature string // "" if there is none
}

// A member is a file of the archive. Its content must be read to its end
// before the next.
type member struct {
	name    string
	mode    int64
	size    int64
	content io.Reader
}

// newReader reads the header. The limit of the window bounds the memory that a forged file can
// make the decoder allocate. Our own have 1 MiB; the rest is room for later versions.
func newReader(r io.Reader) (*reader, error) {
	zst, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(64<<20), zstd.WithDecoderConcurrency(2))
	if err != nil {
		return nil, err
	}
	b := &reader{zst: zst, tar: tar.NewReader(zst), hash: sha256.New(), all: sha256.New()}
	if err := b.readHeader(); err != nil {
		zst.Close()
		return nil, err
	}
	return b, nil
}

func (b *reader) close() { b.zst.Close() }

// readHeader reads the first member, whose checksum comes later: nothing may be
// written because of it, only refused.
func (b *reader) readHeader() error {
	first, err := b.tar.Next()
	if err != nil || first.Name != headerName || first.Size > 1<<16 {
		return fault.New(fault.Malformed, "this is not a backup of Whetstone").Because(err)
	}
	content, err := b.readBytes(b.start(first))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &b.header); err != nil {
		return damaged(err)
	}
	if b.header.Format != format {
		return fault.New(fault.Malformed, "the backup has the format %d and this program reads %d: "+
			"use the version of Whetstone that made it (%s)", b.header.Format, format, b.header.Version)
	}
	if b.header.Schema < 1 {
		return damaged(errors.New("it has no schema"))
	}
	return nil
}

// damaged is the fault for a file whose content is not what was written.
func damaged(cause error) error {
	return fault.New(fault.Malformed, "the backup is damaged: %s; nothing of it was restored", cause).Because(cause)
}

// start returns a member and hashes what is read of it.
func (b *reader) start(h *tar.Header) member {
	b.name = h.Name
	b.hash.Reset()
	return member{name: h.Name, mode: h.Mode, size: h.Size, content: checkedContent{io.TeeReader(b.tar, b.hash)}}
}

// checkedContent turns errors of reading the file into faults, to distinguish them
// from errors of writing its content somewhere.
type checkedContent struct{ r io.Reader }

func (c checkedContent) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged(err)
	}
	return n, err
}

// maxMember bounds what is read into memory at once. Chunks of rows are much smaller, unless a
// single row is large.
const maxMember = 1 << 30

// readBytes reads a whole member. If the file has less than the size in the header, that is an
// error of tar.
func (b *reader) readBytes(m member) ([]byte, error) {
	if m.size > maxMember {
		return nil, damaged(fmt.Errorf("%s is too large", m.name))
	}
	return io.ReadAll(m.content)
}

// next returns the next member that is not a list of checksums, and verifies the
// lists on the way.
func (b *reader) next() (member, error) {
	for {
		if b.name != "" {
			fmt.Fprintf(&b.sums, "%s  %s\n", hex.EncodeToString(b.hash.Sum(nil)), b.name)
			b.name = ""
		}
		h, err := b.tar.Next()
		if errors.Is(err, io.EOF) {
			return member{}, damaged(errors.New("its end is missing"))
		}
		if err != nil {
			return member{}, damaged(err)
		}
		// Links could lead out of the folder of repositories.
		if h.Typeflag != tar.TypeReg {
			return member{}, damaged(fmt.Errorf("%q is not a file", h.Name))
		}
		m := b.start(h)
		if !strings.HasPrefix(h.Name, sumsDir) {
			return m, nil
		}
		if err := b.verifySums(m); err != nil {
			return member{}, err
		}
	}
}

// verifySums compares a list of checksums with the members before it. The lists
// are numbered, so that none can be left out or moved. Lines must be the same and in the same
// order, so members can't be moved, either.
func (b *reader) verifySums(m member) error {
	content, err := b.readBytes(m)
	if err != nil {
		return err
	}
	b.list++
	if m.name != numbered(sumsDir, b.list) || string(content) != b.sums.String() {
		return damaged(errors.New("what it holds does not match its sums"))
	}
	b.all.Write(content)
	b.sums.Reset()
	b.name = ""
	return nil
}

// readManifest reads the manifest and the signature, and checks that nothing
// follows.
func (b *reader) readManifest(m member) (manifest Manifest, err error) {
	content, err := b.readBytes(m)
	if err != nil {
		return manifest, err
	}
	if err := json.Unmarshal(content, &manifest); err != nil {
		return manifest, damaged(err)
	}
	// A member after the last list would be covered by no checksum.
	if b.sums.Len() > 0 || manifest.Sums != hex.EncodeToString(b.all.Sum(nil)) || manifest.Header != b.header {
		return manifest, damaged(errors.New("what it holds does not match its manifest"))
	}
	b.manifest = content
	if err := b.readSignature(); err != nil {
		return manifest, err
	}
	if n, err := io.Copy(io.Discard, b.zst); n > 0 || err != nil {
		return manifest, damaged(errors.New("something follows its end"))
	}
	return manifest, nil
}

// readSignature reads the optional signature behind the manifest.
func (b *reader) readSignature() error {
	h, err := b.tar.Next()
	if err == nil && h.Name == signatureName && h.Typeflag == tar.TypeReg && h.Size <= 1<<10 {
		text, err := io.ReadAll(b.tar)
		if err != nil {
			return damaged(err)
		}
		b.signature = string(text)
		_, err = b.tar.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
	if !errors.Is(err, io.EOF) {
		return damaged(errors.New("something follows its manifest"))
	}
	return nil
}

// checkSigner refuses a backup at its start that Restore could not verify at its
// end. Reading gigabytes first, only to refuse them, would waste an hour of an outage.
func (p Place) checkSigner(h Header) error {
	const trust = "or restore it with --unverified if you trust the file and where it was kept"
	switch {
	case p.Unverified:
		return nil
	case h.SignedWith == "":
		return fault.New(fault.Conflict, "the backup is not signed, so that nothing shows whether it was changed: "+
			"it was made by an older version (this one: %s) or where the secret key was not at hand; make a new one, %s",
			h.Version, trust)
	case p.Signer == nil:
		return fault.New(fault.Conflict, "the backup is signed with the secret key of its installation, which is not here: "+
			"put that installation's secret.key into --data, or set --secret-key, and restore again; %s", trust)
	case !slices.Contains(p.Signer.KeyIDs(), h.SignedWith):
		return fault.New(fault.Conflict, "the backup is signed with another secret key (%s, and here is %s): "+
			"put the secret.key of that time into --data, or set --secret-key to it, and restore again; %s",
			h.SignedWith, strings.Join(p.Signer.KeyIDs(), ", "), trust)
	}
	return nil
}

// verifySignature fails unless the manifest, and with it the whole file, is as it
// was signed.
func (p Place) verifySignature(b *reader) error {
	if p.Unverified {
		return nil
	}
	if err := p.Signer.Verify(b.manifest, b.signature); err != nil {
		return fault.New(fault.Malformed, "the backup was modified: its signature does not match; "+
			"nothing of it was restored").Because(err)
	}
	return nil
}
