package skillpkg

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

const (
	// The fixed parts of the records of the zip format (APPNOTE.TXT, sections 4.3.7,
	// 4.3.12, 4.3.15 and 4.3.16). Names, extra fields and comments follow them.
	zipEndSize     = 22
	zipEntrySize   = 46
	zipLocalSize   = 30
	zipLocatorSize = 20
	// zipEncrypted are the flags of entries that need a password. Bits of section
	// 4.4.4: encrypted, strongly encrypted, and with a masked directory.
	zipEncrypted = 1<<0 | 1<<6 | 1<<13
)

// A zipEntry is an entry of a zip's central directory, with the positions that
// archive/zip does not export.
type zipEntry struct {
	name   string
	flags  uint16
	offset int64 // of the local header
	end    int64 // of the content
}

// readZipDirectory reads the central directory of a zip before archive/zip does:
// it limits the number of entries, and refuses what would let two readers see two
// different archives. It also returns where the directory begins.
func (s *scan) readZipDirectory() (_ []zipEntry, start int64, _ error) {
	start, size, records, err := s.zipEnd()
	if err != nil {
		return nil, 0, err
	}
	r := bufio.NewReader(io.NewSectionReader(s.source, start, size))
	var entries []zipEntry
	for {
		e, err := readZipEntry(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		if err := s.count(); err != nil {
			return nil, 0, err
		}
		entries = append(entries, e)
	}
	if len(entries) != records {
		return nil, 0, refuse(CodeMalformed, "",
			"the zip lists %d members and holds %d; pack the folder again", records, len(entries))
	}
	return entries, start, nil
}

// zipEnd reads the end of central directory record, and returns where the
// directory is and how many entries it has.
func (s *scan) zipEnd() (start, size int64, records int, err error) {
	// A comment of up to 64 KiB may follow the record.
	tail := make([]byte, min(s.size, zipEndSize+1<<16-1))
	if _, err := s.source.ReadAt(tail, s.size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, 0, err
	}
	// From the back, as other readers search; a comment that holds the magic bytes
	// fails the check of its length below.
	at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if at < 0 || at+zipEndSize > len(tail) {
		return 0, 0, 0, refuse(CodeTruncated, "", "the zip has no directory at its end; send it again in full")
	}
	end := tail[at:]
	comment := int(binary.LittleEndian.Uint16(end[20:]))
	if zipEndSize+comment != len(end) {
		return 0, 0, 0, refuse(CodeTrailingData, "", "something follows the end of the zip; pack the folder again")
	}
	if at >= zipLocatorSize && bytes.HasPrefix(tail[at-zipLocatorSize:], []byte("PK\x06\x07")) {
		return 0, 0, 0, refuse(CodeExtension, "",
			"the zip uses zip64, which an archive of this size does not need; pack it without")
	}
	records = int(binary.LittleEndian.Uint16(end[10:]))
	size = int64(binary.LittleEndian.Uint32(end[12:]))
	start = int64(binary.LittleEndian.Uint32(end[16:]))
	// A gap would hide another directory, or a prefix such as a self-extracting
	// program.
	if start+size != s.size-int64(len(end)) {
		return 0, 0, 0, refuse(CodeMalformed, "", "the zip's directory is not where its end says; pack the folder again")
	}
	return start, size, records, nil
}

// readZipEntry reads one entry of the directory, or returns io.EOF.
func readZipEntry(r *bufio.Reader) (zipEntry, error) {
	head := make([]byte, zipEntrySize)
	if _, err := io.ReadFull(r, head); err != nil {
		return zipEntry{}, err
	}
	if !bytes.HasPrefix(head, []byte("PK\x01\x02")) {
		return zipEntry{}, refuse(CodeMalformed, "", "the zip's directory is damaged; pack the folder again")
	}
	name := make([]byte, binary.LittleEndian.Uint16(head[28:]))
	if _, err := io.ReadFull(r, name); err != nil {
		// Not io.EOF, which means a clean end between two entries.
		return zipEntry{}, io.ErrUnexpectedEOF
	}
	rest := int(binary.LittleEndian.Uint16(head[30:])) + int(binary.LittleEndian.Uint16(head[32:]))
	if _, err := r.Discard(rest); err != nil {
		return zipEntry{}, io.ErrUnexpectedEOF
	}
	return zipEntry{
		name:   string(name),
		flags:  binary.LittleEndian.Uint16(head[8:]),
		offset: int64(binary.LittleEndian.Uint32(head[42:])),
	}, nil
}

// readLocal reads the local header of a member, before its content, and checks
// that it agrees with the directory. packed is the size of the content.
func (s *scan) readLocal(e *zipEntry, packed uint64) error {
	head := make([]byte, zipLocalSize)
	if n, err := s.source.ReadAt(head, e.offset); n < len(head) {
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	name := make([]byte, binary.LittleEndian.Uint16(head[26:]))
	if n, err := s.source.ReadAt(name, e.offset+zipLocalSize); n < len(name) {
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	if !bytes.HasPrefix(head, []byte("PK\x03\x04")) || string(name) != e.name {
		return refuse(CodeMalformed, e.name,
			"the zip's directory and the member itself disagree about the name; pack the folder again")
	}
	// Before the sum below, which could overflow otherwise.
	if packed > uint64(s.size) {
		return refuse(CodeMalformed, e.name, "the member claims to be larger than the archive; pack the folder again")
	}
	// A reader may go by either header, so each can make a member encrypted.
	e.flags |= binary.LittleEndian.Uint16(head[6:])
	extra := int64(binary.LittleEndian.Uint16(head[28:]))
	e.end = e.offset + zipLocalSize + int64(len(name)) + extra + int64(packed)
	return nil
}

// checkOverlap refuses members that share bytes with each other or with the
// directory: with those a small zip unpacks to a very large tree (a zip bomb
// without nesting).
func checkOverlap(entries []zipEntry, directory int64) error {
	byOffset := slices.Clone(entries)
	slices.SortFunc(byOffset, func(a, b zipEntry) int { return cmp.Compare(a.offset, b.offset) })
	for i, e := range byOffset {
		// The end of each member must not lie beyond the start of the next one. Gaps
		// between them are allowed: data descriptors are there.
		next := directory
		if i+1 < len(byOffset) {
			next = byOffset[i+1].offset
		}
		if e.end > next {
			return refuse(CodeOverlap, e.name, "the member shares bytes with another part of the zip; pack the folder again")
		}
	}
	return nil
}
