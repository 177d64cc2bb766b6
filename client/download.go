package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// maxArchive is the largest archive that the registry accepts.
const maxArchive = 10 << 20

// A Wanted describes a download.
type Wanted struct {
	// ContentHash is the SHA-256 of the version in the registry. A download with
	// another one is an ErrHash.
	ContentHash string
	// Withdrawn says that a version is wanted although it was withdrawn: otherwise that is an
	// *Error with the status 410 and the code "withdrawn".
	Withdrawn bool
	// Progress, when set, is called with the number of bytes received and the total,
	// which is -1 if the server does not send it. It starts at 0 again with every
	// retry.
	Progress func(done, of int64)
}

// Download fetches the archive from the download URL of a SyncEntry. The URL is
// signed, so the key is not sent. An expired one is an *Error with the status 403.
func (c *Client) Download(ctx context.Context, link string, w Wanted) (archive []byte, err error) {
	err = retry(ctx, true, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
		if err != nil {
			return permanent{unwrapURL(err)}
		}
		archive, err = w.fetch(ctx, c.files, req)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	return archive, nil
}

// DownloadVersion fetches the archive of one version of an entry.
func (c *Client) DownloadVersion(ctx context.Context, entryID, version string, w Wanted) (archive []byte, err error) {
	path := entryPath(entryID) + "/versions/" + url.PathEscape(version) + "/download"
	if w.Withdrawn {
		path += "?withdrawn=true"
	}
	err = retry(ctx, true, func() error {
		req, err := c.request(ctx, call{method: http.MethodGet, path: path})
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/gzip, application/json")
		archive, err = w.fetch(ctx, c.api, req)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("download version %s: %w", version, err)
	}
	return archive, nil
}

// DownloadTo copies what a signed URL has to the writer that begin returns for each try.
// It is for files of any size, so it has no timeout but that of the context.
func (c *Client) DownloadTo(ctx context.Context, link string, begin func() (io.Writer, error)) error {
	err := retry(ctx, true, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
		if err != nil {
			return permanent{unwrapURL(err)}
		}
		w, err := begin()
		if err != nil {
			return permanent{err}
		}
		resp, err := c.files.Do(req)
		if err != nil {
			return unwrapURL(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return newError(resp)
		}
		_, err = io.Copy(w, resp.Body)
		return err
	})
	if err != nil {
		return fmt.Errorf("download: %w", err)
	}
	return nil
}

// fetch makes one try.
func (w Wanted) fetch(ctx context.Context, h *http.Client, req *http.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	resp, err := h.Do(req.WithContext(ctx))
	if err != nil {
		return nil, unwrapURL(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, newError(resp)
	}
	content, total := io.LimitReader(resp.Body, maxArchive+1), resp.ContentLength
	if w.Progress != nil {
		content = &progressReader{r: content, report: func(done int64) { w.Progress(done, total) }}
	}
	var archive bytes.Buffer
	digest := sha256.New()
	if _, err := io.Copy(io.MultiWriter(&archive, digest), content); err != nil {
		return nil, err
	}
	if archive.Len() > maxArchive {
		return nil, permanent{fmt.Errorf("the download is larger than %d MiB", maxArchive>>20)}
	}
	if hex.EncodeToString(digest.Sum(nil)) != w.ContentHash {
		return nil, ErrHash
	}
	return archive.Bytes(), nil
}
