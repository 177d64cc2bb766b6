package blob

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// downloadPath is where the server mounts Files as a handler.
const downloadPath = "/blobs/"

// DownloadPaths are the patterns that Links are mounted at: the objects that signed
// URLs are made for. One pattern for all would meet /{skill}/.well-known of the
// catalogs.
func DownloadPaths() []string {
	return []string{downloadPath + "exports/", downloadPath + "registry/", downloadPath + "sha256/"}
}

// The query of a signed URL.
const (
	paramExpires  = "expires" // seconds since the epoch
	paramFilename = "filename"
	paramType     = "type"
	paramFor      = "for"
	beforeSig     = "&sig=" // comes last, and signs all before it
)

// A signer makes URLs that this server serves, and recognises them.
type signer struct {
	publicURL func() string
	lastBase  atomic.Pointer[signedBase]
	macs      sync.Pool // of the HMACs that sign with the secret
}

func (s *signer) init(o Options) error {
	if len(o.Secret) < minSecret {
		return fmt.Errorf("secret has %d bytes, must have at least %d", len(o.Secret), minSecret)
	}
	s.publicURL = o.PublicURL
	s.macs.New = func() any { return hmac.New(sha256.New, o.Secret) }
	return nil
}

// Links is a bucket whose signed URLs this server serves itself, whatever the bucket is, so
// that a URL can end before it expires. It is the http.Handler of them, also of those of
// Files.
type Links struct {
	Bucket
	signer

	// Allow refuses what must no longer be read by a URL that was signed for a reader
	// (SignOptions.For, "" if it has none), e.g. a version that was withdrawn. Nil allows all.
	Allow func(ctx context.Context, key, reader string) error
	log   *slog.Logger
}

// NewLinks returns Links of a bucket; o has their PublicURL, Secret and Log.
func NewLinks(b Bucket, o Options) (*Links, error) {
	l := &Links{Bucket: b, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler))}
	return l, l.init(o)
}

// SignedURL implements Bucket.
func (l *Links) SignedURL(_ context.Context, key string, o SignOptions) (string, error) {
	return l.signedURL(key, o)
}

// ServeHTTP answers GET and HEAD of signed URLs, whole or in ranges. It is mounted at
// DownloadPaths; the signature and Allow are the only authorization. An invalid or expired
// URL is answered with 403, a missing blob with 404, what was taken back with 410.
func (l *Links) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.serve(w, r, l.Bucket, l.Allow, l.log)
}

// SignedURL implements Bucket.
func (f *Files) SignedURL(_ context.Context, key string, o SignOptions) (string, error) {
	return f.signedURL(key, o)
}

func (s *signer) signedURL(key string, o SignOptions) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	if err := o.check(); err != nil {
		return "", err
	}
	base, err := s.linkBase()
	if err != nil {
		return "", fmt.Errorf("sign blob %s: %w", key, err)
	}
	// Rounded up, so that a URL is never valid for less than Expires.
	expires := time.Now().Add(o.Expires + time.Second - 1).Unix()
	query := paramExpires + "=" + strconv.FormatInt(expires, 10)
	if o.Filename != "" {
		query += "&" + paramFilename + "=" + url.QueryEscape(o.Filename)
	}
	if o.ContentType != "" {
		query += "&" + paramType + "=" + url.QueryEscape(o.ContentType)
	}
	if o.For != "" {
		query += "&" + paramFor + "=" + url.QueryEscape(o.For)
	}
	return base + (&url.URL{Path: key}).EscapedPath() + "?" + query + beforeSig + s.sign(key, query), nil
}

// A signedBase is the beginning of signed URLs, and the public URL it was made of.
type signedBase struct{ public, base string }

// linkBase parses the public URL only when it has changed: one sync signs up to
// a thousand URLs.
func (s *signer) linkBase() (string, error) {
	public := s.publicURL()
	if last := s.lastBase.Load(); last != nil && last.public == public {
		return last.base, nil
	}
	u, err := url.Parse(public)
	if err != nil {
		return "", err
	}
	if u.Host == "" {
		return "", fmt.Errorf("public URL %q is not absolute", public)
	}
	u.RawPath, u.RawQuery, u.Fragment = "", "", ""
	base := strings.TrimSuffix(u.String(), "/") + downloadPath
	s.lastBase.Store(&signedBase{public, base})
	return base, nil
}

// sign returns the signature of a key with the query before it. Neither a key
// nor an encoded query can contain the line break between them.
func (s *signer) sign(key, query string) string {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write([]byte("blob\n" + key + "\n" + query))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// verify returns the options that were given to SignedURL, or a Denied fault.
func (s *signer) verify(key, rawQuery string) (SignOptions, error) {
	signed, sig, _ := strings.Cut(rawQuery, beforeSig)
	if !hmac.Equal([]byte(sig), []byte(s.sign(key, signed))) {
		return SignOptions{}, fault.New(fault.Denied, "This link is not valid")
	}
	// The signature is right, so SignedURL wrote the query.
	var o SignOptions
	for field := range strings.SplitSeq(signed, "&") {
		name, escaped, _ := strings.Cut(field, "=")
		value, err := url.QueryUnescape(escaped)
		if err != nil {
			return SignOptions{}, fault.New(fault.Denied, "This link is not valid")
		}
		switch name {
		case paramExpires:
			seconds, _ := strconv.ParseInt(value, 10, 64)
			o.Expires = time.Until(time.Unix(seconds, 0))
		case paramFilename:
			o.Filename = value
		case paramType:
			o.ContentType = value
		case paramFor:
			o.For = value
		}
	}
	if o.Expires <= 0 {
		return SignOptions{}, fault.New(fault.Denied, "This link has expired")
	}
	return o, nil
}

// ServeHTTP is that of Links that allow everything.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.serve(w, r, f, nil, f.log) }

func (s *signer) serve(
	w http.ResponseWriter, r *http.Request, b Bucket, allow func(ctx context.Context, key, reader string) error, log *slog.Logger,
) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeError(w, http.StatusMethodNotAllowed, "Method not allowed", "")
		return
	}
	key := strings.TrimPrefix(r.URL.Path, downloadPath)
	o, err := s.verify(key, r.URL.RawQuery)
	if err != nil {
		writeError(w, http.StatusForbidden, err.Error(), "")
		return
	}
	if allow != nil {
		err = allow(r.Context(), key, o.For)
	}
	if err == nil {
		err = Serve(w, r, b, key, o)
	}
	gone, _ := errors.AsType[*fault.Error](err)
	switch {
	case err == nil:
	case fault.Is(err, fault.NotFound):
		writeError(w, http.StatusNotFound, "Blob not found", "")
	case fault.Is(err, fault.Gone):
		writeError(w, http.StatusGone, gone.Message, gone.Code)
	default:
		log.ErrorContext(r.Context(), "blob not served", "key", key, "error", err)
		writeError(w, http.StatusInternalServerError, "Internal server error", "")
	}
}

// Serve answers a GET or HEAD with a blob. An error means that nothing was
// written yet. The caller must have authorized the request.
func Serve(w http.ResponseWriter, r *http.Request, b Bucket, key string, o SignOptions) error {
	body, info, err := b.Get(r.Context(), key)
	if err != nil {
		return err
	}
	ServeBody(w, r, body, info, o)
	return nil
}

// ServeBody is Serve for a blob that is open; it closes it.
func ServeBody(w http.ResponseWriter, r *http.Request, body io.ReadCloser, info Info, o SignOptions) {
	defer func() { _ = body.Close() }()

	if serveWhole(w, r, body, o) {
		return
	}
	setHeaders(w.Header(), o)
	setContentHeaders(w.Header(), info.Key)
	content, ok := body.(io.ReadSeeker)
	if !ok {
		w.Header().Set("Content-Length", strconv.FormatInt(info.Size, 10))
		if r.Method == http.MethodGet {
			_, _ = io.Copy(w, body) // the client sees a short body if this fails
		}
		return
	}
	if r.Header.Get("Range") != "" {
		w = &rangeWriter{ResponseWriter: w}
	}
	http.ServeContent(w, r, "", info.Modified, content)
}

// setHeaders sets the headers that the options choose.
func setHeaders(h http.Header, o SignOptions) {
	h.Set("Content-Type", cmp.Or(o.ContentType, "application/octet-stream"))
	h.Set("Content-Disposition", disposition(o.Filename))
}

// setContentHeaders sets the headers that follow from the key: where it names its
// content, the blob is immutable and has an ETag.
func setContentHeaders(h http.Header, key string) {
	h.Set("X-Content-Type-Options", "nosniff")
	sum, ok := ContentSum(key)
	if !ok {
		h.Set("Cache-Control", "private, no-cache") // another Put may change it
		return
	}
	raw, _ := hex.DecodeString(sum) // ContentSum has decoded it
	h.Set("Cache-Control", "private, immutable")
	h.Set("ETag", `"`+sum+`"`)
	h.Set("Digest", "sha-256="+base64.StdEncoding.EncodeToString(raw))
}

// rangeWriter answers a range that cannot be served with our error body
// instead of the text of http.ServeContent.
type rangeWriter struct {
	http.ResponseWriter
	refused bool
}

func (w *rangeWriter) WriteHeader(status int) {
	if status != http.StatusRequestedRangeNotSatisfiable {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.refused = true
	w.Header().Del("Content-Disposition")
	w.Header().Del("Digest")
	writeError(w.ResponseWriter, status, "Range not satisfiable", "")
}

func (w *rangeWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// writeError writes the structured error body of the API. The package that
// writes it elsewhere, httpapi, imports this one.
func writeError(w http.ResponseWriter, status int, message, code string) {
	type content struct {
		Message string `json:"message"`
		Status  int    `json:"status"`
		Code    string `json:"code,omitempty"`
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// An error here means that the client is gone.
	_ = json.NewEncoder(w).Encode(struct {
		Error content `json:"error"`
	}{content{message, status, code}})
}
