package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing/fstest"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// assetBytes is the size of the one large file of a skill. It does not
// compress, like most that make a skill large: fonts, images, documents.
const assetBytes = 100_000

// archive returns the tar.gz of a skill, as the command line packs it. Another
// seed gives other content: two versions with the same would be stored once.
func archive(ctx context.Context, seed uint64) ([]byte, error) {
	var state [32]byte
	binary.LittleEndian.PutUint64(state[:], seed)
	asset := make([]byte, assetBytes)
	_, _ = rand.NewChaCha8(state).Read(asset) // never fails
	folder := fstest.MapFS{
		"SKILL.md":         {Data: []byte("---\nname: bench\ndescription: Use it to measure how fast skills are published.\n---\n\nSee assets/noise.bin.\n")},
		"assets/noise.bin": {Data: asset},
	}
	var b bytes.Buffer
	_, err := skillpkg.Pack(ctx, folder, &b, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits()})
	return b.Bytes(), err
}
