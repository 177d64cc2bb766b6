package suites

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// The environment of a task package is an archive, to which its case refers.
// An imported one is content-addressed in the service's bucket, below the
// prefix of its organisation:
//
//	blob://evals/<organisation>/<sha256>.tar.gz
//
// An operator may upload others, to which cases refer as
//
//	s3://<bucket>/environments/<organisation>/<name>
const (
	blobScheme        = "blob"
	environmentPrefix = "evals/"
	operatorPrefix    = "environments/"
)

// importedKey returns the blob key of an environment that the organisation
// imported, and false for any other reference.
func importedKey(orgID, ref string) (key string, ok bool) {
	scheme, key, found := strings.Cut(ref, "://")
	prefix := environmentPrefix + orgID + "/"
	if !found || !strings.EqualFold(scheme, blobScheme) || !strings.HasPrefix(key, prefix) {
		return "", false
	}
	return key, isEnvironmentName(strings.TrimPrefix(key, prefix))
}

// EnvironmentKey returns the blob key of an environment that the organisation
// imported or that the operator put there for it. It returns false for every
// other reference: no organisation may read another one's blobs.
func (s *Service) EnvironmentKey(orgID, ref string) (key string, ok bool) {
	if key, ok := importedKey(orgID, ref); ok {
		return key, true
	}
	key, ok = strings.CutPrefix(ref, "s3://"+s.Bucket+"/")
	return key, ok && s.Bucket != "" && strings.HasPrefix(key, operatorPrefix+orgID+"/")
}

// isEnvironmentName reports whether a name is <sha256>.tar.gz.
func isEnvironmentName(name string) bool {
	hash, ok := strings.CutSuffix(name, ".tar.gz")
	return ok && len(hash) == 64 && strings.Trim(hash, "0123456789abcdef") == ""
}

// environmentSizes returns the sizes of the imported environments of cases, by
// blob key. One that does not exist has the size 0.
func (s *Service) environmentSizes(ctx context.Context, orgID string, cases []Case) (map[string]int64, error) {
	keys := environmentKeys(orgID, cases)
	if len(keys) == 0 {
		return map[string]int64{}, nil
	}
	sizes, err := knownSizes(ctx, s.DB, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if sizes[key] > 0 { // blobs are content-addressed, so a known size is still right
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

// environmentKeys returns the blob keys of the imported environments of cases,
// without duplicates.
func environmentKeys(orgID string, cases []Case) (keys []string) {
	for _, c := range cases {
		if key, ok := importedKey(orgID, c.Package.EnvironmentRef); ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// replaceEnvironments stores which environments a suite refers to, and counts
// their bytes for the quota. A size that is not given is the one stored before.
func (s *Service) replaceEnvironments(ctx context.Context, tx *store.Tx, suite Suite, sizes map[string]int64) error {
	before, err := environmentsOf(ctx, tx, suite.ID)
	if err != nil {
		return err
	}
	keys, after := environmentKeys(suite.OrgID, suite.Cases), map[string]int64{}
	for _, key := range keys {
		size, ok := sizes[key]
		if !ok {
			size = before[key]
		}
		after[key] = size
	}
	if maps.Equal(before, after) {
		return nil // most changes of a suite are about other things
	}
	if before, err = deleteEnvironments(ctx, tx, suite.ID); err != nil {
		return err
	}
	if err := insertEnvironments(ctx, tx, suite.ID, after); err != nil {
		return err
	}
	// Another suite may have referred to an environment before it was imported,
	// when it had no size. From now on it keeps the blob, and must pay for it.
	found, err := fillSizes(ctx, tx, keys)
	if err != nil {
		return err
	}
	return s.Quota.Add(ctx, tx, suite.OrgID, quota.Evals, sum(after)-sum(before)+found)
}

func sum(sizes map[string]int64) (n int64) {
	for _, size := range sizes {
		n += size
	}
	return n
}

// putEnvironment stores an archive for the organisation and returns the
// reference to it. Storing it again renews its age, which protects it from the
// sweep until the suite is committed.
func (s *Service) putEnvironment(ctx context.Context, orgID string, archive []byte) (ref string, err error) {
	digest := sha256.Sum256(archive)
	key := environmentPrefix + orgID + "/" + hex.EncodeToString(digest[:]) + ".tar.gz"
	return blobScheme + "://" + key, s.Blobs.Put(ctx, key, bytes.NewReader(archive), int64(len(archive)))
}
