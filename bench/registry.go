package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

const (
	publishConns  = 8
	downloadConns = 16
	verdaccioName = "Verdaccio"
	// wanted of requests a second, beside Verdaccio.
	registryRatio = 5
	// wanted of versions a processor-second: unlike the rate, it does not depend on how
	// many of the cores a server can use.
	workRatio = 3
)

// benchPublish measures how fast versions of 100 KB come in. Every connection
// has a skill of its own, here and there: a package of many versions slows
// Verdaccio down.
func benchPublish(ctx context.Context, l *lab) ([]row, error) {
	peer, err := l.startVerdaccio(ctx)
	if err != nil {
		return nil, err
	}
	defer peer.stop()
	ours, err := l.startRegistry(ctx, publishConns)
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	sums, err := l.compare(ctx, l.publishing(ctx, ours, 150), l.publishing(ctx, peer, 25))
	if err != nil {
		return nil, err
	}
	return []row{
		{Name: "publish: throughput", Figure: sums[0].rate, Unit: "req/s", Beside: verdaccioName, Other: sums[1].rate, AtLeast: registryRatio},
		{
			Name: "publish: a processor-second", Figure: sums[0].perWork, Unit: "versions",
			Beside: verdaccioName, Other: sums[1].perWork, AtLeast: workRatio,
		},
		{Name: "publish: p50", Figure: sums[0].p50, Unit: "ms", Beside: verdaccioName, Other: sums[1].p50},
		{Name: "publish: p99", Figure: sums[0].p99, Unit: "ms", Beside: verdaccioName, Other: sums[1].p99},
	}, nil
}

// A publisher is a registry to which skills can be published.
type publisher interface {
	address() string
	process() int
	// publication makes the request that publishes a version of the n-th skill.
	publication(ctx context.Context, n int, version string, archive []byte) (*http.Request, error)
}

// publishing is a side that publishes versions, so many from each connection
// in every round.
func (l *lab) publishing(ctx context.Context, p publisher, count int) side {
	if l.quick {
		count /= 5
	}
	return func(round int) (load, error) {
		requests := make([][]byte, publishConns*count)
		for i := range requests {
			content, err := archive(ctx, uint64(round*len(requests)+i+1))
			if err != nil {
				return load{}, err
			}
			req, err := p.publication(ctx, i%publishConns, fmt.Sprintf("1.%d.%d", round, i/publishConns), content)
			if err != nil {
				return load{}, err
			}
			if requests[i], err = wire(req); err != nil {
				return load{}, err
			}
		}
		next := func(conn, n int) []byte {
			if n == count {
				return nil
			}
			return requests[n*publishConns+conn]
		}
		return load{
			addr: p.address(), conns: publishConns, next: next, span: answerTimeout, status: http.StatusCreated, pid: p.process(),
		}, nil
	}
}

// A registry is Whetstone with some entries.
type registry struct {
	*server
	entries []string // ids
}

// startRegistry starts Whetstone and makes entries with a first version each.
func (l *lab) startRegistry(ctx context.Context, entries int) (*registry, error) {
	data, err := l.folder("registry")
	if err != nil {
		return nil, err
	}
	s, err := l.serve(ctx, data)
	if err != nil {
		return nil, err
	}
	r := &registry{server: s}
	for n := range entries {
		if err := r.create(ctx, n); err != nil {
			s.stop()
			return nil, err
		}
	}
	return r, nil
}

func skillName(n int) string { return fmt.Sprintf("bench-%d", n) }

const firstVersion = "1.0.0-first"

func (r *registry) create(ctx context.Context, n int) error {
	content, err := archive(ctx, 0)
	if err != nil {
		return err
	}
	req, err := r.upload(ctx, "/api/v1/registry", skillName(n), firstVersion, content)
	if err != nil {
		return err
	}
	var made struct{ Entry struct{ ID string } }
	if err := call(req, http.StatusCreated, &made); err != nil {
		return err
	}
	r.entries = append(r.entries, made.Entry.ID)
	return nil
}

func (r *registry) address() string { return r.addr }
func (r *registry) process() int    { return r.cmd.Process.Pid }

func (r *registry) publication(ctx context.Context, n int, version string, archive []byte) (*http.Request, error) {
	return r.upload(ctx, "/api/v1/registry/"+r.entries[n]+"/versions", skillName(n), version, archive)
}

// upload makes the request of create and push.
func (r *registry) upload(ctx context.Context, path, name, version string, archive []byte) (*http.Request, error) {
	sum := sha256.Sum256(archive)
	metadata, err := json.Marshal(map[string]string{
		"name": name, "version": version, "content_hash": hex.EncodeToString(sum[:]),
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	if err := form.WriteField("metadata", string(metadata)); err != nil {
		return nil, err
	}
	part, err := form.CreateFormFile("archive", name+".tar.gz")
	if err != nil {
		return nil, err
	}
	if _, err := part.Write(archive); err != nil {
		return nil, err
	}
	if err := form.Close(); err != nil {
		return nil, err
	}
	req, err := r.request(ctx, http.MethodPost, path, &b)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	return req, nil
}

// signedURL asks for the URL that a client downloads from.
func (r *registry) signedURL(ctx context.Context) (string, error) {
	body := fmt.Sprintf(`{"installations": [{"entry_id": %q, "current_version_hash": "none"}]}`, r.entries[0])
	req, err := r.request(ctx, http.MethodPost, "/api/v1/registry/sync", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	var sync struct {
		Entries []struct {
			DownloadURL string `json:"download_url"`
		}
	}
	if err := call(req, http.StatusOK, &sync); err != nil {
		return "", err
	}
	if len(sync.Entries) != 1 {
		return "", fmt.Errorf("sync answered %d entries, want 1", len(sync.Entries))
	}
	return sync.Entries[0].DownloadURL, nil
}

// benchDownload measures how fast an archive goes out, by the two roads that
// clients have.
func benchDownload(ctx context.Context, l *lab) ([]row, error) {
	npm, err := l.startVerdaccio(ctx)
	if err != nil {
		return nil, err
	}
	defer npm.stop()
	ours, err := l.startRegistry(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	files, err := l.startFileServer(ctx)
	if err != nil {
		return nil, err
	}
	defer files.stop()
	sides, err := l.downloads(ctx, ours, files, npm)
	if err != nil {
		return nil, err
	}
	sums, err := l.compare(ctx, sides...)
	if err != nil {
		return nil, err
	}
	return downloadRows(sums), nil
}

const fileName = "archive.tar.gz"

// startFileServer starts a bare file server with the archive.
func (l *lab) startFileServer(ctx context.Context) (*server, error) {
	folder, err := l.folder("files")
	if err != nil {
		return nil, err
	}
	content, err := archive(ctx, 0)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, fileName), content, 0o600); err != nil {
		return nil, err
	}
	return startPeer(ctx, "files", folder)
}

// downloads are the four sides: signed URL, API route, file server, Verdaccio.
func (l *lab) downloads(ctx context.Context, ours *registry, files *server, npm *verdaccio) ([]side, error) {
	signed, err := ours.signedURL(ctx)
	if err != nil {
		return nil, err
	}
	tarball, err := npm.publishFirst(ctx)
	if err != nil {
		return nil, err
	}
	var sides []side
	for _, of := range []struct {
		server *server
		url    string
	}{
		{ours.server, signed},
		{ours.server, ours.url + "/api/v1/registry/" + ours.entries[0] + "/versions/" + firstVersion + "/download"},
		{files, files.url + "/" + fileName},
		{npm.server, tarball},
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, of.url, nil)
		if err != nil {
			return nil, err
		}
		if strings.Contains(of.url, "/api/v1/") {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		request, err := wire(req)
		if err != nil {
			return nil, err
		}
		sides = append(sides, l.steady(of.server, request, downloadConns))
	}
	return sides, nil
}

func downloadRows(sums []summary) []row {
	const fileServer, fileRatio = "http.FileServer", 0.8
	files, npm := sums[2], sums[3]
	var rows []row
	for i, road := range []string{"signed URL", "API route"} {
		name, ours := "download: "+road, sums[i]
		rows = append(rows,
			row{Name: name, Figure: ours.rate, Unit: "req/s", Beside: verdaccioName, Other: npm.rate, AtLeast: registryRatio},
			row{Name: name, Figure: ours.rate, Unit: "req/s", Beside: fileServer, Other: files.rate, AtLeast: fileRatio},
			row{Name: name + ", p99", Figure: ours.p99, Unit: "ms", Beside: verdaccioName, Other: npm.p99},
			row{Name: name + ", p99", Figure: ours.p99, Unit: "ms", Beside: fileServer, Other: files.p99},
		)
	}
	return rows
}
