package blob

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
)

const awsEndpoint = "s3.amazonaws.com"

// location is a parsed s3:// URL.
type location struct {
	bucket string
	prefix string // empty, or ends with a slash
	region string // empty: the client asks the server
	host   string
	secure bool
	lookup minio.BucketLookupType
}

// parseS3 reads s3://bucket?region=..&endpoint=..&prefix=..&path_style=..&insecure=..
// Its errors never quote the URL, which may hold a secret in the wrong place.
func parseS3(raw string) (location, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return location{}, errors.New("blob URL is not a URL")
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.Scheme != "s3" || u.Host == "" || strings.Trim(u.Path, "/") != "" || err != nil:
		return location{}, errors.New("blob URL must look like s3://bucket?region=R&endpoint=E")
	case u.User != nil:
		return location{}, errors.New("blob URL must not hold keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	known := []string{"region", "endpoint", "prefix", "path_style", "insecure"}
	for name := range query {
		if !slices.Contains(known, name) {
			return location{}, fmt.Errorf("blob URL has the unknown parameter %q, known are %s", name, strings.Join(known, ", "))
		}
	}

	l := location{bucket: u.Host, region: query.Get("region")}
	if l.host, l.secure, err = parseEndpoint(query); err != nil {
		return location{}, err
	}
	if l.lookup, err = parseLookup(query); err != nil {
		return location{}, err
	}
	if prefix := strings.Trim(query.Get("prefix"), "/"); prefix != "" {
		if err := checkKey(prefix); err != nil || len(prefix) > maxPrefix {
			return location{}, errors.New("prefix of the blob URL is not a key")
		}
		l.prefix = prefix + "/"
	}
	return l, nil
}

// parseEndpoint reads an endpoint with or without a scheme, which is https
// unless insecure says otherwise.
func parseEndpoint(query url.Values) (host string, secure bool, err error) {
	insecure, err := parseBool(query, "insecure")
	if err != nil {
		return "", false, err
	}
	raw := cmp.Or(query.Get("endpoint"), awsEndpoint)
	if !strings.Contains(raw, "://") {
		scheme := "https"
		if insecure {
			scheme = "http"
		}
		raw = scheme + "://" + raw
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return "", false, errors.New("endpoint of the blob URL must look like https://host:port")
	case u.Scheme == "http":
		return u.Host, false, nil
	case u.Scheme == "https" && !insecure:
		return u.Host, true, nil
	case u.Scheme == "https":
		return "", false, errors.New("endpoint of the blob URL is https, and insecure is set")
	default:
		return "", false, errors.New("endpoint of the blob URL must be http or https")
	}
}

// parseLookup chooses where requests name the bucket: in the path, in the host,
// or, by default, where the endpoint is known to expect it.
func parseLookup(query url.Values) (minio.BucketLookupType, error) {
	pathStyle, err := parseBool(query, "path_style")
	switch {
	case err != nil:
		return 0, err
	case pathStyle:
		return minio.BucketLookupPath, nil
	case query.Has("path_style"):
		return minio.BucketLookupDNS, nil
	default:
		return minio.BucketLookupAuto, nil
	}
}

func parseBool(query url.Values, name string) (bool, error) {
	if !query.Has(name) {
		return false, nil
	}
	value, err := strconv.ParseBool(query.Get(name))
	if err != nil {
		return false, fmt.Errorf("%s of the blob URL must be true or false", name)
	}
	return value, nil
}
