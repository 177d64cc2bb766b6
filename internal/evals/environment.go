package evals

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Imported environments stand in the bucket below environmentPrefix and the
// organisation's id, and are referred to as blob://evals/<organisation>/<name>.
const (
	blobScheme        = "blob"
	environmentPrefix = "evals/"
)

// EnvironmentKey returns the key in the bucket of an environment that was
// imported, and false if the reference is to something else or to another
// organisation's.
func EnvironmentKey(orgID, ref string) (key string, ok bool) {
	scheme, key, found := strings.Cut(ref, "://")
	own := environmentPrefix + orgID + "/"
	if !found || !strings.EqualFold(scheme, blobScheme) || !strings.HasPrefix(key, own) {
		return "", false
	}
	return key, isEnvironmentName(strings.TrimPrefix(key, own))
}

// sharedPrefix is where an operator puts environments for an organisation, in
// the folder of its id: s3://<bucket>/environments/<organisation>/<name>.
const sharedPrefix = "environments/"

// blobKey returns the key in the bucket of an environment that was imported or
// that the operator put there for the organisation. No other key is any
// organisation's to read.
func (s *Service) blobKey(orgID, ref string) (key string, ok bool) {
	if key, ok := EnvironmentKey(orgID, ref); ok {
		return key, true
	}
	key, ok = strings.CutPrefix(ref, "s3://"+s.Bucket+"/")
	return key, ok && s.Bucket != "" && strings.HasPrefix(key, sharedPrefix+orgID+"/")
}

func isEnvironmentName(name string) bool {
	hash, ok := strings.CutSuffix(name, ".tar.gz")
	return ok && len(hash) == 64 && strings.Trim(hash, "0123456789abcdef") == ""
}

func environmentRef(key string) string { return blobScheme + "://" + key }

// sweepEnvironments is the job that removes environments which no suite refers
// to any more.
type sweepEnvironments struct{}

// Kind names the job.
func (sweepEnvironments) Kind() string { return "evals.sweep-environments" }

func (s *Service) registerSweep() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweepEnvironments) error { return s.sweep(ctx, blob.OrphanAge) })
	s.Jobs.Every(blob.OrphanAge, sweepEnvironments{})
}

// sweep spares what is younger than age: its suite may not be committed yet.
func (s *Service) sweep(ctx context.Context, age time.Duration) (err error) {
	defer fault.Wrap(&err, "sweep eval environments")
	for info, err := range s.Blobs.List(ctx, environmentPrefix) {
		if err != nil {
			return err
		}
		if time.Since(info.Modified) < age {
			continue
		}
		if err := s.removeUnused(ctx, info.Key, age); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) removeUnused(ctx context.Context, key string, age time.Duration) error {
	if used, err := environmentInUse(ctx, s.DB, key); err != nil || used {
		return err
	}
	info, err := s.Blobs.Stat(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil || time.Since(info.Modified) < age {
		return err
	}
	return s.Blobs.Delete(ctx, key)
}

// measure returns the sizes of the imported environments that cases need, by
// their keys. One that is not there has none.
func (s *Service) measure(ctx context.Context, orgID string, cases []Case) (map[string]int64, error) {
	keys := environmentKeys(orgID, cases)
	if len(keys) == 0 {
		return map[string]int64{}, nil
	}
	sizes, err := environmentSizes(ctx, s.DB, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if sizes[key] > 0 {
			continue
		}
		info, err := s.Blobs.Stat(ctx, key)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		sizes[key] = info.Size
	}
	return sizes, nil
}

// environmentKeys lists the imported environments of cases, each once.
func environmentKeys(orgID string, cases []Case) (keys []string) {
	for _, c := range cases {
		if key, ok := EnvironmentKey(orgID, c.Package.EnvironmentRef); ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// needEnvironments writes down which environments a suite needs, and counts
// their bytes. Those whose size is not given have the one they had.
func (s *Service) needEnvironments(ctx context.Context, tx *store.Tx, suite Suite, sizes map[string]int64) error {
	before, err := deleteEnvironments(ctx, tx, suite.ID)
	if err != nil {
		return err
	}
	more := -total(before)
	for _, key := range environmentKeys(suite.OrgID, suite.Cases) {
		size, ok := sizes[key]
		if !ok {
			size = before[key]
		}
		if err := insertEnvironment(ctx, tx, suite.ID, key, size); err != nil {
			return err
		}
		more += size
	}
	return s.Quota.Add(ctx, tx, suite.OrgID, quota.Evals, more)
}

func total(sizes map[string]int64) (n int64) {
	for _, size := range sizes {
		n += size
	}
	return n
}

// keepEnvironment stores an archive for the organisation and returns the
// reference to it. Storing it again makes it young, which keeps it from the
// sweep until the suite is committed.
func (s *Service) keepEnvironment(ctx context.Context, orgID string, archive []byte) (string, error) {
	sum := sha256.Sum256(archive)
	key := environmentPrefix + orgID + "/" + hex.EncodeToString(sum[:]) + ".tar.gz"
	return environmentRef(key), s.Blobs.Put(ctx, key, bytes.NewReader(archive), int64(len(archive)))
}
