package hosttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (g *GitLab) serveMergeRequests(w http.ResponseWriter, r *http.Request, fullName, arg string) {
	switch {
	case arg == "" && r.Method == http.MethodPost:
		g.takeMergeRequest(w, r, fullName)
		return
	case arg == "":
		g.listMergeRequests(w, r, fullName)
		return
	}
	number, what, _ := strings.Cut(arg, "/")
	i := slices.IndexFunc(g.Pulls(), func(p *OpenedPull) bool { return p.Base == fullName && fmt.Sprint(p.Number) == number })
	if i < 0 {
		notFound(w, "Not found")
		return
	}
	p := g.Pulls()[i]
	what, id, _ := strings.Cut(what, "/")
	switch what {
	case "":
		writeJSON(w, http.StatusOK, g.mergeRequest(p, true))
	case "diffs":
		g.serveDiffs(w, r, p)
	case "versions":
		writeJSON(w, http.StatusOK, page(w, r, g.versions(p), "per_page", 100))
	case "approvals":
		writeJSON(w, http.StatusOK, map[string]any{"approved": true, "approved_by": g.approvals(p)})
	case "commits":
		g.serveMergeCommits(w, r, p)
	case "notes":
		g.serveNotes(w, r, p, id)
	default:
		writeJSON(w, http.StatusNotFound, map[string]any{"error": "404 Not Found"})
	}
}

func (g *GitLab) takeMergeRequest(w http.ResponseWriter, r *http.Request, fullName string) {
	var in struct {
		Title, Description string
		Source             string `json:"source_branch"`
		Target             string `json:"target_branch"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Title == "" || in.Target == "" {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "title is missing"})
		return
	}
	_, _, sourceOK := g.commit(fullName, "refs/heads/"+in.Source)
	if _, _, ok := g.commit(fullName, "refs/heads/"+in.Target); !ok || !sourceOK {
		writeJSON(w, http.StatusBadRequest, map[string]any{"message": []string{"You can't use same project/branch for source and target"}})
		return
	}
	for _, p := range g.Pulls() {
		if p.Base == fullName && p.Branch == in.Source && !p.Closed {
			writeJSON(w, http.StatusConflict, map[string]any{
				"message": []string{"Another open merge request already exists for this source branch: !" + fmt.Sprint(p.Number)},
			})
			return
		}
	}
	p := g.OpenPull(fullName, fullName, in.Source)
	p.Set(func(p *OpenedPull) { p.Into, p.Title, p.Body = in.Target, in.Title, in.Description })
	writeJSON(w, http.StatusCreated, g.mergeRequest(p, true))
}

func (g *GitLab) listMergeRequests(w http.ResponseWriter, r *http.Request, fullName string) {
	source, state := r.FormValue("source_branch"), r.FormValue("state")
	out := []map[string]any{}
	for _, p := range slices.Backward(g.Pulls()) {
		shown := g.mergeRequest(p, false)
		if p.Base == fullName && (source == "" || source == p.Branch) && (state == "all" || shown["state"] == state) {
			out = append(out, shown)
		}
	}
	writeJSON(w, http.StatusOK, page(w, r, out, "per_page", 100))
}

// serveOfCommit lists the merge requests that have a commit, or that it merged.
func (g *GitLab) serveOfCommit(w http.ResponseWriter, fullName, sha string) {
	if _, _, ok := g.commit(fullName, sha); !ok {
		notFound(w, "Commit")
		return
	}
	out := []map[string]any{}
	for _, p := range g.Pulls() {
		shown := g.mergeRequest(p, false)
		if p.Base == fullName && (shown["sha"] == sha || shown["merge_commit_sha"] == sha || shown["squash_commit_sha"] == sha) {
			out = append(out, shown)
		}
	}
	writeJSON(w, http.StatusOK, out)
}

// mergeRequest is one as the API answers it. Lists have no diff_refs.
func (g *GitLab) mergeRequest(of *OpenedPull, whole bool) map[string]any {
	g.mu.Lock()
	p := *of
	g.mu.Unlock()
	head, _ := g.git(p.Base, "rev-parse", p.ref())
	state := "opened"
	switch {
	case p.Merged:
		state = "merged"
	case p.Closed:
		state = "closed"
	}
	out := map[string]any{
		"id": 70_000 + p.Number, "iid": p.Number, "title": p.Title, "description": p.Body, "state": state, "draft": p.Draft,
		"sha": head, "source_branch": p.Branch, "target_branch": p.Into, "target_project_id": g.ID(p.Base),
		"source_project_id": g.ID(p.From), "author": g.author(p.Author), "created_at": p.CreatedAt.UTC(),
		"web_url":          fmt.Sprintf("https://gitlab.example/%s/-/merge_requests/%d", p.Base, p.Number),
		"merge_commit_sha": nil, "squash_commit_sha": nil,
	}
	if !g.exists(p.From) {
		out["source_project_id"] = nil
	}
	field := "merge_commit_sha"
	if p.squashed {
		field = "squash_commit_sha"
	}
	if p.mergeCommit != head { // nothing is made where the branch is moved on to the head
		out[field] = orNull(p.mergeCommit)
	}
	if whole {
		base := p.mergeBase
		if base == "" {
			base, _ = g.git(p.Base, "merge-base", "refs/heads/"+p.Into, p.ref())
		}
		out["diff_refs"] = map[string]any{"base_sha": base, "head_sha": head, "start_sha": base}
		out["changes_count"] = strconv.Itoa(len(g.changed(of)))
	}
	return out
}

func (g *GitLab) changed(p *OpenedPull) []string {
	out, _ := g.git(p.Base, "diff", "--name-only", "--no-renames", "refs/heads/"+p.Into+"..."+p.ref())
	return strings.Fields(out)
}

func (g *GitLab) serveDiffs(w http.ResponseWriter, r *http.Request, p *OpenedPull) {
	out := []map[string]any{}
	for _, path := range page(w, r, g.changed(p), "per_page", 100) {
		out = append(out, map[string]any{"old_path": path, "new_path": path, "diff": ""})
	}
	writeJSON(w, http.StatusOK, out)
}

// author is an account as GitLab shows it. What those wrote that are gone is the ghost's.
func (g *GitLab) author(id int64) map[string]any {
	if a := g.account(id); a != nil {
		return map[string]any{"id": a["id"], "username": a["login"], "state": "active"}
	}
	return map[string]any{"id": 1, "username": "ghost", "state": "active"}
}

// versions are the heads over time, newest first: each review was of the head then.
func (g *GitLab) versions(p *OpenedPull) []map[string]any {
	head, _ := g.git(p.Base, "rev-parse", p.ref())
	g.mu.Lock()
	reviews := slices.Clone(p.reviews)
	g.mu.Unlock()
	var all []map[string]any
	last, at := "", created
	add := func(sha string, when time.Time) {
		if sha != last {
			all = append(all, map[string]any{"id": len(all) + 1, "head_commit_sha": sha, "created_at": when, "state": "collected"})
			last = sha
		}
	}
	for _, one := range reviews {
		add(one.Commit, one.At.Add(-time.Second/2))
		at = one.At.Add(time.Second / 2)
	}
	add(head, at)
	slices.Reverse(all)
	return all
}

// approvals are those that stand: whoever requests changes takes an approval back.
func (g *GitLab) approvals(p *OpenedPull) []map[string]any {
	g.mu.Lock()
	reviews := slices.Clone(p.reviews)
	g.mu.Unlock()
	var by []int64
	for _, one := range reviews {
		approves := one.State == "APPROVED" && !one.Dismissed
		if approves || one.Dismissed || strings.Contains(one.State, "CHANGES") {
			by = slices.DeleteFunc(by, func(id int64) bool { return id == one.Account })
		}
		if approves && g.account(one.Account) != nil {
			by = append(by, one.Account)
		}
	}
	out := []map[string]any{}
	for _, id := range by {
		out = append(out, map[string]any{"user": g.author(id)})
	}
	return out
}

func (g *GitLab) serveMergeCommits(w http.ResponseWriter, r *http.Request, p *OpenedPull) {
	g.mu.Lock()
	from := p.mergeBase
	if from == "" {
		from = "refs/heads/" + p.Into
	}
	g.mu.Unlock()
	log, _ := g.git(p.Base, "log", "--format=%H %ae %ce", from+".."+p.ref())
	out := []map[string]any{}
	for _, line := range page(w, r, strings.Split(strings.TrimSpace(log), "\n"), "per_page", 100) {
		if f := strings.Fields(line); len(f) == 3 {
			out = append(out, map[string]any{"id": f[0], "author_email": f[1], "committer_email": f[2]})
		}
	}
	writeJSON(w, http.StatusOK, out)
}

// systemNotes are what GitLab writes about reviews.
var systemNotes = map[string]string{
	"APPROVED": "approved this merge request", "CHANGES_REQUESTED": "requested changes", "REQUEST_CHANGES": "requested changes",
}

// serveNotes lists the notes of a merge request, creates one or changes one.
func (g *GitLab) serveNotes(w http.ResponseWriter, r *http.Request, p *OpenedPull, id string) {
	if r.Method == http.MethodGet {
		writeJSON(w, http.StatusOK, page(w, r, g.notes(p), "per_page", 100))
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	user := operator
	if u, ok := g.Tokens[r.Header.Get("Private-Token")]; ok {
		user = u
	}
	status, i := http.StatusOK, slices.IndexFunc(g.comments, func(c PostedComment) bool {
		return r.Method == http.MethodPut && c.FullName == p.Base && fmt.Sprint(c.ID) == id
	})
	if r.Method == http.MethodPost {
		g.comments = append(g.comments, PostedComment{
			ID: int64(len(g.comments) + 1), FullName: p.Base, Number: int(p.Number), Edits: -1,
			User: map[string]any{"id": user.ID, "username": user.Username},
		})
		status, i = http.StatusCreated, len(g.comments)-1
	}
	if i < 0 {
		notFound(w, "Not found")
		return
	}
	c := &g.comments[i]
	if err := json.NewDecoder(r.Body).Decode(&struct {
		Body *string `json:"body"`
	}{&c.Body}); err != nil || c.Body == "" {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "body is missing"})
		return
	}
	c.Edits++
	writeJSON(w, status, map[string]any{"id": c.ID, "body": c.Body, "system": false})
}

// notes are those of reviews, and comments.
func (g *GitLab) notes(p *OpenedPull) []map[string]any {
	g.mu.Lock()
	reviews, comments := slices.Clone(p.reviews), slices.Clone(g.comments)
	g.mu.Unlock()
	out := []map[string]any{}
	for _, one := range reviews {
		body, system := systemNotes[one.State]
		if one.State == "PENDING" {
			continue
		}
		if !system {
			body = "what they said: approved this merge request"
		}
		out = append(out, map[string]any{
			"id": one.ID, "body": body, "system": system, "author": g.author(one.Account), "created_at": one.At,
		})
	}
	for _, c := range comments {
		if c.FullName != p.Base || c.Number != int(p.Number) {
			continue
		}
		author := c.User
		if author["username"] == nil {
			author = map[string]any{"id": 3, "username": author["login"]}
		}
		out = append(out, map[string]any{"id": c.ID, "body": c.Body, "system": false, "author": author, "created_at": p.CreatedAt})
	}
	return out
}
