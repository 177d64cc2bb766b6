package taskpkg

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// Environments are fetched for each trial, so there are few retries: a server that is
// down must not hold up the run, and a trial without a verdict is cheaper.
const (
	maxRedirects        = 3
	maxAttempts         = 3
	defaultFetchTimeout = 2 * time.Minute
	defaultBackoff      = time.Second // doubled after each attempt
)

var sha256Digest = regexp.MustCompile(`^sha256[=:]([0-9a-f]{64})$`)

// A temporary error is worth a retry, e.g. a 503 or a broken connection.
type temporary struct{ error }

func (t temporary) Unwrap() error { return t.error }

// fetch downloads the environment to a file and returns its digest. Temporary
// errors are retried with exponential backoff.
func (r *Runner) fetch(ctx context.Context, t Task, f *os.File) (digest string, err error) {
	ref, fragment, given := strings.Cut(t.EnvironmentRef, "#")
	want := sha256Digest.FindStringSubmatch(strings.ToLower(fragment))
	if given && want == nil {
		return "", errorf(DigestMismatch, "the digest of environment_ref is not sha256=<64 hexadecimal digits>")
	}
	backoff := cmp.Or(r.overrides.Backoff, defaultBackoff)
	for attempt := 1; ; attempt++ {
		digest, err = r.fetchOnce(ctx, t, ref, f)
		if !errors.As(err, &temporary{}) || attempt == maxAttempts {
			break
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(backoff):
		}
		backoff *= 2
	}
	if err != nil {
		return "", fetchFailure(ctx, err)
	}
	if want != nil && digest != want[1] {
		return digest, errorf(DigestMismatch, "the environment has the digest sha256=%s, not the one in environment_ref", digest)
	}
	return digest, nil
}

// fetchOnce downloads from the start: an attempt before may have left half a file.
func (r *Runner) fetchOnce(ctx context.Context, t Task, ref string, f *os.File) (digest string, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if err := f.Truncate(0); err != nil {
		return "", err
	}
	body, err := r.open(ctx, t, ref)
	if err != nil {
		return "", err
	}
	defer body.Close()
	limit := r.archiveLimits().Packed
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(body, limit+1))
	if err != nil {
		return "", markTemporary(err)
	}
	if n > limit {
		return "", fault.New(fault.TooLarge, "the environment is larger than %d bytes", limit)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// open opens the environment that a reference names: a URL, or a blob of the
// organisation.
func (r *Runner) open(ctx context.Context, t Task, ref string) (io.ReadCloser, error) {
	scheme, _, _ := strings.Cut(ref, "://")
	if scheme = strings.ToLower(scheme); scheme == "http" || scheme == "https" {
		return r.openWeb(ctx, ref)
	}
	if t.BlobKey == nil || r.Blobs == nil {
		return nil, errorf(FetchRefused, "environment_ref is not an http or https URL")
	}
	key, ok := t.BlobKey(ref)
	if !ok {
		return nil, errorf(FetchRefused, "the organisation has no environment of that name; import it, or use an http or https URL")
	}
	body, _, err := r.Blobs.Get(ctx, key)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Malformed) {
		err = temporary{err}
	}
	return body, err
}

// openWeb fetches through the guarded client: the URL is the user's, and must not
// reach the service's own network (SSRF).
func (r *Runner) openWeb(ctx context.Context, ref string) (io.ReadCloser, error) {
	if r.HTTP == nil {
		return nil, errorf(FetchRefused, "environments are not fetched from the web here")
	}
	client := r.HTTP.With(outbound.Limits{
		Timeout: cmp.Or(r.overrides.FetchTimeout, defaultFetchTimeout), MaxBody: r.archiveLimits().Packed,
		MaxRedirects: maxRedirects,
	})
	resp, err := client.Get(ctx, ref)
	if err != nil {
		return nil, markTemporary(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	err = errors.Join(fault.New(fault.BadGateway, "the server answered %s", resp.Status), resp.Body.Close())
	if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout {
		err = temporary{err}
	}
	return nil, err
}

// markTemporary marks errors of the network as temporary, except those of the SSRF
// guard, which would refuse a retry, too.
func markTemporary(err error) error {
	if fault.Is(err, fault.BadGateway) && !outbound.IsRefused(err) {
		return temporary{err}
	}
	return err
}

// fetchFailure gives an error its code: FetchRefused if the same request can never
// succeed, else FetchFailed.
func fetchFailure(ctx context.Context, err error) error {
	var known *failure
	switch {
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil:
		return ctx.Err()
	case outbound.IsRefused(err), fault.Is(err, fault.TooLarge), fault.Is(err, fault.Malformed):
		return errorf(FetchRefused, "%s", publicMessage(err))
	}
	return errorf(FetchFailed, "%s", publicMessage(err))
}

// publicMessage returns what may be shown of an error: the message of a fault, and for
// others a general one, since they may have internal addresses.
func publicMessage(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	return "the environment cannot be fetched"
}

// errorf returns the failure of a trial for a reason that isn't its programs' fault.
func errorf(code Code, format string, args ...any) *failure {
	return &failure{verdict: Error, code: code, message: fmt.Sprintf(format, args...)}
}

// failf is a failure that the task's programs, and so perhaps the skill, caused.
func failf(code Code, format string, args ...any) *failure {
	return &failure{verdict: Fail, code: code, message: fmt.Sprintf(format, args...)}
}
