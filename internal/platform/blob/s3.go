package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// Timeouts: to connect, to begin an answer, for a request without a body, and
// for one with a blob.
const (
	dialTimeout     = 5 * time.Second
	headerTimeout   = 30 * time.Second
	requestTimeout  = 15 * time.Second
	transferTimeout = 10 * time.Minute
)

const maxAttempts = 3

// s3 is a bucket at AWS or at a server that speaks the same protocol.
type s3 struct {
	core   minio.Core
	bucket string
	prefix string
}

func openS3(o Options) (Bucket, error) {
	l, err := parseS3(o.URL)
	if err != nil {
		return nil, err
	}
	transport, err := minio.DefaultTransport(l.secure)
	if err != nil {
		return nil, err
	}
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	transport.ResponseHeaderTimeout = headerTimeout
	client, err := minio.New(l.host, &minio.Options{
		Creds:        l.credentials(),
		Secure:       l.secure,
		Transport:    transport,
		Region:       l.region,
		BucketLookup: l.lookup,
		MaxRetries:   maxAttempts,
	})
	if err != nil {
		return nil, err
	}
	keys, err := client.GetCreds()
	if err != nil {
		return nil, err
	}
	// The client would send requests without keys, whose refusal does not say what
	// is missing.
	if keys.SignerType.IsAnonymous() {
		return nil, errors.New("no keys for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	return &s3{core: minio.Core{Client: client}, bucket: l.bucket, prefix: l.prefix}, nil
}

// credentials finds the keys in the environment. At AWS they may also come
// from the role of the machine or the pod.
func (l location) credentials() *credentials.Credentials {
	providers := []credentials.Provider{&credentials.EnvAWS{}}
	if l.host == awsEndpoint {
		providers = append(providers, &credentials.IAM{})
	}
	return credentials.NewChainCredentials(providers)
}

// Put implements Bucket. It sends one request whatever the size, which is atomic:
// an interrupted multipart upload would leave parts behind.
func (s *s3) Put(ctx context.Context, key string, r io.Reader, size int64) (err error) {
	if err := checkKey(key); err != nil {
		return err
	}
	defer fault.Wrap(&err, "put blob %s", key)
	// The client retries only with a body that can be read again.
	body := io.Reader(&exactReader{ctx, r, size})
	if again := section(r); again != nil {
		if again.Size() != size {
			return errSize
		}
		body = again
	}
	if size == 0 {
		// The client does not read a body of no bytes, so only this finds out that
		// it has some.
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	_, err = s.core.Client.PutObject(ctx, s.bucket, s.prefix+key, body, size, minio.PutObjectOptions{
		DisableMultipart: true,
		// An empty body in signed chunks is still one chunk, which some servers
		// take for the beginning of the next request.
		DisableContentSha256: size == 0,
	})
	return s3Error(err)
}

// Get implements Bucket.
func (s *s3) Get(ctx context.Context, key string) (_ io.ReadCloser, _ Info, err error) {
	if err := checkKey(key); err != nil {
		return nil, Info{}, err
	}
	defer fault.Wrap(&err, "get blob %s", key)
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	body, object, _, err := s.core.GetObject(ctx, s.bucket, s.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		cancel()
		return nil, Info{}, s3Error(err)
	}
	return &s3Body{body, cancel}, s3Info(key, object), nil
}

// s3Body is the body of an answer; Close ends its timeout.
type s3Body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *s3Body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// Stat implements Bucket.
func (s *s3) Stat(ctx context.Context, key string) (_ Info, err error) {
	if err := checkKey(key); err != nil {
		return Info{}, err
	}
	defer fault.Wrap(&err, "stat blob %s", key)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	object, err := s.core.StatObject(ctx, s.bucket, s.prefix+key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, s3Error(err)
	}
	return s3Info(key, object), nil
}

// Delete implements Bucket.
func (s *s3) Delete(ctx context.Context, key string) (err error) {
	if err := checkKey(key); err != nil {
		return err
	}
	defer fault.Wrap(&err, "delete blob %s", key)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err = s.core.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{})
	if err = s3Error(err); fault.Is(err, fault.NotFound) {
		return nil // some servers report it
	}
	return err
}

// List implements Bucket.
func (s *s3) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := checkPrefix(prefix); err != nil {
			yield(Info{}, err)
			return
		}
		options := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
		for object := range s.core.ListObjectsIter(ctx, s.bucket, options) {
			if object.Err != nil {
				yield(Info{}, fmt.Errorf("list blobs: %w", s3Error(object.Err)))
				return
			}
			key := strings.TrimPrefix(object.Key, s.prefix)
			if checkKey(key) != nil {
				continue // not ours: consoles make "folders" such as "a/"
			}
			if !yield(s3Info(key, object), nil) {
				return
			}
		}
		// The client stops without an error when the context ends.
		if err := ctx.Err(); err != nil {
			yield(Info{}, fmt.Errorf("list blobs: %w", err))
		}
	}
}

// SignedURL implements Bucket.
func (s *s3) SignedURL(ctx context.Context, key string, o SignOptions) (_ string, err error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	if err := o.check(); err != nil {
		return "", err
	}
	defer fault.Wrap(&err, "sign blob %s", key)
	// Without a region in the URL, the client asks the server for it, once.
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	query := url.Values{"response-content-disposition": {disposition(o.Filename)}}
	if o.ContentType != "" {
		query.Set("response-content-type", o.ContentType)
	}
	u, err := s.core.PresignedGetObject(ctx, s.bucket, s.prefix+key, o.Expires, query)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// Check implements Bucket.
func (s *s3) Check(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "check bucket %s", s.bucket)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := s.core.BucketExists(ctx, s.bucket)
	if err != nil {
		return err
	}
	if !found {
		return errors.New("no such bucket")
	}
	return nil
}

// RemoveParts implements Bucket. A put of one request leaves nothing behind.
func (s *s3) RemoveParts(context.Context, time.Duration) (int, error) { return 0, nil }

func s3Info(key string, object minio.ObjectInfo) Info {
	return Info{Key: key, Size: object.Size, Modified: object.LastModified.UTC()}
}

// s3Error makes a missing object a NotFound fault, and a server that is away or
// overloaded an Unavailable one.
func s3Error(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	answer := minio.ToErrorResponse(err)
	if answer.Code == minio.NoSuchKey {
		return fault.New(fault.NotFound, "Blob not found").Because(err)
	}
	_, isNet := errors.AsType[*net.OpError](err)
	if isNet || answer.StatusCode >= http.StatusInternalServerError || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(fault.Unavailable, "The storage is not available now; try again").After(time.Second).Because(err)
	}
	return err
}
