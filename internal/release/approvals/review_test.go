package approvals_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// onAll runs a test on both databases and all code hosts.
func onAll(t *testing.T, test func(t *testing.T, db *store.DB, provider host.Provider)) {
	t.Helper()
	for _, provider := range []host.Provider{host.GitHub, host.Gitea, host.GitLab} {
		t.Run(string(provider), func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) { test(t, db, provider) })
		})
	}
}

// onBoth runs a test on both databases, each with another code host: neither knows of the
// other.
func onBoth(t *testing.T, test func(t *testing.T, db *store.DB, provider host.Provider)) {
	t.Helper()
	for provider, database := range map[host.Provider]string{host.GitHub: "sqlite", host.Gitea: "postgres", host.GitLab: "sqlite"} {
		t.Run(fmt.Sprint(provider, "-", database), func(t *testing.T) {
			t.Parallel()
			test(t, storetest.Open(t, database), provider)
		})
	}
}

func TestReviewsBeforeTheMerge(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, nil)
		for _, merge := range []func(*hosttest.OpenedPull) string{(*hosttest.OpenedPull).Merge, (*hosttest.OpenedPull).Squash} {
			p := w.change(pdf(fmt.Sprint("Text ", w.changes)))
			id := p.Review(benAt, approve)
			p.Review(cydAt, approve)
			version := w.pushed(merge(p))
			w.want(version, "published", 2)
			if got := w.ada.Current(w.entry); got != version {
				t.Errorf("version %s is current, want %s", got, version)
			}
			answer, _ := w.review(version)["approvals"].([]any)[0].(jsonObject)
			if answer["user_id"] != w.ben.User.ID && answer["user_id"] != w.cyd.User.ID {
				t.Errorf("got the approval %v", answer)
			}
			found := w.Count(`audit_entries WHERE action = 'approvals.version.approve' AND user_id = $1 AND detail LIKE $2`,
				w.ben.User.ID, fmt.Sprintf(`%%"review_id":%d,%%`, id))
			if found != 1 {
				t.Errorf("%d entries of the audit log are about the review, want 1", found)
			}
		}
	})
}

func TestReviewsAfterTheMerge(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, nil)
		p := w.change(pdf("Two."))
		p.Review(benAt, approve)
		version := w.pushed(p.Merge())
		w.want(version, "candidate", 1)
		review := w.review(version)
		answer, _ := review["approvals"].([]any)[0].(jsonObject)
		of, _ := answer["review"].(jsonObject)
		pull, _ := review["pull_request"].(jsonObject)
		if of["host"] != codeHost || of["number"] != float64(p.Number) || of["url"] == "" || of["repository"] != w.repo || of["own"] != false ||
			answer["counts"] != true || pull["number"] != float64(p.Number) || pull["problem"] != "" {
			t.Errorf("got the review %v of %v", of, pull)
		}
		said := false
		for _, s := range w.host.Statuses() {
			said = said || strings.Contains(s.Description, "it has 1 of 2 approvals")
		}
		if !said {
			t.Errorf("the commit does not say what is missing: %v", w.host.Statuses())
		}

		// A forged delivery does nothing, and a genuine one finds what the code host says.
		event, body := p.ReviewEvent(provider, w.number())
		w.deliverSigned(event, body, host.Sign("guess", []byte(body))).Want(http.StatusUnauthorized)
		w.reviewed(p)
		w.want(version, "candidate", 1)
		if n := w.Count("version_approvals"); n != 1 {
			t.Errorf("%d approvals are stored, want 1", n)
		}
		p.Review(cydAt, approve)
		w.reviewed(p)
		w.want(version, "published", 2)
	})
}

// TestLostDeliveries is about reviews whose webhooks do not arrive.
func TestLostDeliveries(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, nil)
		p := w.change(pdf("Two."))
		version := w.pushed(p.Merge())
		w.want(version, "candidate", 0)
		first := p.Review(benAt, approve)
		w.reconcile()
		w.want(version, "candidate", 1)
		p.Dismiss(first)
		w.reconcile()
		w.want(version, "candidate", 0)
		if n := w.Count("audit_entries WHERE action = 'approvals.version.withdraw'"); n != 1 {
			t.Errorf("%d approvals were withdrawn, want 1", n)
		}
		p.Review(benAt, approve)
		p.Review(cydAt, approve)
		w.host.Rename("acme/skills", "acme/renamed")
		w.reconcile()
		w.want(version, "published", 2)
	})
}

func (w *reviewWorld) reconcile() {
	w.T.Helper()
	w.Exec(`UPDATE repohost_connections SET reconcile_at = 0`) // all are due
	if err := w.repohost.ReconcileDue(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	w.Settle()
}

// TestReviewsThatDoNotCount tries what must not be an approval. Ben's review counts in each,
// unless the case says otherwise.
func TestReviewsThatDoNotCount(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, nil)
		changes := w.requestChanges()
		comment := map[host.Provider]string{host.GitHub: "COMMENTED", host.Gitea: "COMMENT"}[provider]
		other := w.Org("other", access.Team)
		w.identity(other, codeHost, fmt.Sprint(zoeAt))
		w.identity(w.ben, "https://github.example", fmt.Sprint(eveAt)) // the number is another person's there
		merge := (*hosttest.OpenedPull).Merge
		for name, c := range map[string]struct {
			author string
			review func(p *hosttest.OpenedPull)
			merge  func(p *hosttest.OpenedPull) string
			given  int
			ignore string // the reason
		}{
			"a comment takes nothing back": {review: func(p *hosttest.OpenedPull) { p.Review(benAt, comment) }, given: 1},
			"twice":                        {review: func(p *hosttest.OpenedPull) { p.Review(benAt, approve) }, given: 1},
			"changes requested later":      {review: func(p *hosttest.OpenedPull) { p.Review(benAt, changes) }},
			"changes requested by another": {review: func(p *hosttest.OpenedPull) { p.Review(cydAt, changes) }, given: 1},
			"dismissed":                    {review: func(p *hosttest.OpenedPull) { p.Dismiss(p.Review(benAt, approve)) }},
			"a commit later": {review: func(p *hosttest.OpenedPull) {
				w.work.Commit("more", map[string]string{"pdf/more.md": p.Branch})
				w.work.Git("push", "--quiet", "origin", p.Branch)
				p.Update()
			}, ignore: "approved an earlier commit"},
			"no member":                   {review: func(p *hosttest.OpenedPull) { p.Review(eveAt, approve) }, given: 1, ignore: "is not the account of a member"},
			"of another organisation":     {review: func(p *hosttest.OpenedPull) { p.Review(zoeAt, approve) }, given: 1, ignore: "is not the account of a member"},
			"who may not approve":         {review: func(p *hosttest.OpenedPull) { p.Review(danAt, approve) }, given: 1, ignore: "may not approve versions of pdf"},
			"who connected it":            {review: func(p *hosttest.OpenedPull) { p.Review(adaAt, approve) }, given: 1, ignore: "connected the repository"},
			"an account that is gone":     {review: func(p *hosttest.OpenedPull) { p.Review(999, approve) }, given: 1},
			"who wrote a commit":          {author: "Ben <102@code.example>", ignore: "opened it, or wrote a commit of it"},
			"who opened it":               {review: func(p *hosttest.OpenedPull) { p.Set(func(p *hosttest.OpenedPull) { p.Author = benAt }) }, ignore: "opened it, or wrote a commit of it"},
			"another login, same account": {review: func(*hosttest.OpenedPull) { w.host.AddAccount(benAt, "benjamin", "102@code.example") }, given: 1},
			"a merge that changes the skill": {
				merge: func(p *hosttest.OpenedPull) string {
					resolved := w.work.Commit("resolved", pdf("Resolved in another way."))
					w.work.Git("push", "--quiet", "origin", "HEAD:refs/heads/resolved")
					return p.MergeAs(resolved)
				}, ignore: "the merge made another content than its head has",
			},
		} {
			p := w.change(pdf("Text of "+name), author(c.author)...)
			p.Review(benAt, approve)
			if c.review != nil {
				c.review(p)
			}
			if c.merge == nil {
				c.merge = merge
			}
			version := w.pushed(c.merge(p))
			review := w.review(version)
			if review["given"] != float64(c.given) || review["state"] != "candidate" || review["rejected"] != float64(0) {
				t.Errorf("%s: %v with %v approvals, want a candidate with %d: %v", name, review["state"], review["given"], c.given, review["pull_request"])
			}
			if why := fmt.Sprint(review["pull_request"]); !strings.Contains(why, c.ignore) {
				t.Errorf("%s: got %s, want the reason %q", name, why, c.ignore)
			}
			w.release(version)
		}
	})
}

func author(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// TestUnseenChanges is about pull requests that do not show what the version changes.
func TestUnseenChanges(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, nil)
		problem := func(version, want string) {
			t.Helper()
			w.want(version, "candidate", 0)
			pull, _ := w.review(version)["pull_request"].(jsonObject)
			if got, _ := pull["problem"].(string); !strings.Contains(got, want) {
				t.Errorf("got the problem %q, want %q", got, want)
			}
		}
		approved := func(files map[string]string) *hosttest.OpenedPull {
			p := w.change(files)
			p.Review(benAt, approve)
			p.Review(cydAt, approve)
			return p
		}
		// Pushed without a pull request, then one about something else, on top of it.
		w.work.Git("checkout", "--quiet", "main")
		direct := w.pushed(w.work.Push("direct", pdf("Nobody has seen this.")))
		w.want(direct, "candidate", 0)
		if got := w.review(direct)["pull_request"]; got != nil {
			t.Errorf("got the pull request %v of a commit that was pushed", got)
		}
		if got := w.pushed(approved(map[string]string{"README.md": "read"}).Merge()); got != direct {
			w.want(direct, "candidate", 0)
		}
		// One that changes the skill on top of it shows a part of the change only.
		problem(w.pushed(approved(pdf("A small change.\n\nNobody has seen this.")).Squash()), "never approved here")
		// Once people have approved that, it is what the next one begins at.
		current := w.pushed(approved(pdf("Another small change.")).Merge())
		problem(current, "never approved here")
		w.release(current)
		version := w.pushed(approved(pdf("A change that all have seen.")).Merge())
		w.want(version, "published", 2)

		// The push of two merges at once is one version.
		first := approved(pdf("First."))
		first.Merge()
		second := approved(map[string]string{"README.md": "read again"})
		problem(w.pushed(second.Merge()), "does not change the skill")
	})
}

// TestOtherBranches is about pull requests into branches that are not connected.
func TestOtherBranches(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, nil)
		p := w.change(pdf("Two."))
		w.work.Git("push", "--quiet", "origin", "origin/main:refs/heads/next")
		p.Set(func(p *hosttest.OpenedPull) { p.Into = "next" })
		p.Review(benAt, approve)
		p.Review(cydAt, approve)
		sha := p.Merge()
		w.work.Git("fetch", "--quiet", "origin")
		w.work.Git("push", "--quiet", "origin", "origin/next:refs/heads/main") // around the review
		version := w.pushed(sha)
		w.want(version, "candidate", 0)
		pull, _ := w.review(version)["pull_request"].(jsonObject)
		if got := pull["problem"]; got != "it was merged into next, and main is connected" {
			t.Errorf("got the problem %v", got)
		}
	})
}

// TestTwoEntries has two skills in one repository.
func TestTwoEntries(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, nil)
		csv := w.ada.Made("csv", "0.0.0-repohost.1111111", registrytest.Skill(t, "one"))
		w.connect(csv, "csv")
		w.work.Git("checkout", "--quiet", "main")
		w.pushed(w.work.Push("a readme", map[string]string{"README.md": "read"}))
		w.policy(csv, jsonObject{"approvals": 1})

		// Only csv is reviewed; pdf changes on main without anybody seeing it.
		w.work.Push("not reviewed", pdf("Nobody has seen this."))
		p := w.change(map[string]string{"csv/SKILL.md": hosttest.Skill("csv", "Two.")})
		p.Review(benAt, approve)
		p.Review(cydAt, approve)
		version := w.pushed(p.Squash())
		w.want(version, "candidate", 0)
		if got := w.ada.Current(csv); got != version {
			t.Errorf("version %s of csv is current, want %s", got, version)
		}
	})
}

// TestDecisionsHere is about people who review on the code host and decide here.
func TestDecisionsHere(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, nil)
		p := w.change(pdf("Two."))
		id := p.Review(benAt, approve)
		version := w.pushed(p.Merge())
		w.want(version, "candidate", 1)
		path := registrytest.VersionPath(w.entry, version) + "/approvals"
		w.ben.Post(path, jsonObject{"decision": "approve"}).Want(http.StatusOK) // from now on it is his own
		p.Dismiss(id)
		w.reviewed(p)
		w.want(version, "candidate", 1)
		p.Review(benAt, approve)
		w.ben.Post(path, jsonObject{"decision": "reject", "comment": "No."}).Want(http.StatusOK)
		w.reviewed(p)
		if r := w.review(version); r["given"] != float64(0) || r["rejected"] != float64(1) {
			t.Errorf("after a rejection here: %v given, %v rejected", r["given"], r["rejected"])
		}
		w.ben.Post(path, jsonObject{"decision": "approve"}).Want(http.StatusOK)
		p.Review(cydAt, approve)
		w.reviewed(p)
		w.want(version, "published", 2)
	})
}

// TestPolicyDecides: a version meets the policy of its push, or a stricter one of later.
// Members who go do not count any more.
func TestPolicyDecides(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, jsonObject{"host_reviews": false})
		p := w.change(pdf("Two."), "Ben <102@code.example>")
		p.Review(benAt, approve)
		p.Review(cydAt, approve)
		version := w.pushed(p.Merge())
		w.want(version, "candidate", 0)
		if n := len(w.host.Requests(w.reviewsAt())); n != 0 {
			t.Errorf("the reviews were read %d times, and do not count", n)
		}
		if got := w.review(version)["pull_request"]; got != nil {
			t.Errorf("got the pull request %v", got)
		}
		w.policy(w.entry, nil)
		w.Settle()
		w.want(version, "candidate", 0) // what waits keeps the policy that it met
		w.ada.Post(registrytest.VersionPath(w.entry, version)+"/approvals/override", jsonObject{"reason": "urgent"}).Want(http.StatusOK)

		p = w.change(pdf("Three."), "Ben <102@code.example>")
		p.Review(benAt, approve)
		p.Review(cydAt, approve)
		version = w.pushed(p.Merge())
		w.want(version, "candidate", 1) // Ben wrote it
		w.policy(w.entry, jsonObject{"approvals": 3})
		w.Settle()
		w.want(version, "candidate", 1)
		w.Exec(`UPDATE users SET removed_at = 1 WHERE id = $1`, w.cyd.User.ID)
		w.want(version, "candidate", 0)
		w.reconcile()
		w.want(version, "candidate", 0)
	})
}

// TestHostFails has a code host that fails, limits requests, or knows too much.
func TestHostFails(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, nil)
		p := w.change(pdf("Two."))
		p.Review(benAt, approve)
		for range 999 {
			p.Review(eveAt, map[host.Provider]string{host.GitHub: "COMMENTED", host.Gitea: "COMMENT"}[provider])
		}
		w.host.Break(hosttest.Fault{On: w.reviewsAt(), Answer: hosttest.Status(http.StatusBadGateway)},
			hosttest.Fault{On: w.reviewsAt(), Answer: hosttest.Status(http.StatusServiceUnavailable)})
		version := w.pushed(p.Merge())
		w.want(version, "candidate", 1) // asked again until it answered

		w.host.Break(hosttest.Fault{On: w.reviewsAt(), Answer: hosttest.Status(http.StatusBadGateway), Always: true})
		w.reviewed(p)
		w.want(version, "candidate", 1) // what was known stays
		w.host.Mend()
		w.host.Break(hosttest.Fault{On: w.reviewsAt(), Answer: hosttest.Status(http.StatusForbidden), Always: true})
		w.reviewed(p)
		w.want(version, "candidate", 1)
		w.host.Mend()
		more := "PENDING"
		if provider == host.GitLab { // lists no drafts
			more = "COMMENTED"
		}
		for range 2_000 {
			p.Review(eveAt, more)
		}
		w.reviewed(p)
		w.want(version, "candidate", 0) // more reviews than are read: a later one may have withdrawn it
		pull, _ := w.review(version)["pull_request"].(jsonObject)
		if pull["problem"] != "it has more reviews than are read" {
			t.Errorf("got %v", pull)
		}
		p.DeleteReviews()
		p.Review(benAt, approve)
		p.Review(cydAt, approve)
		trees := len(w.host.Requests("archive")) + len(w.host.Requests("tarball"))
		w.reviewed(p)
		w.want(version, "published", 2)
		if again := len(w.host.Requests("archive")) + len(w.host.Requests("tarball")); again != trees {
			t.Errorf("files were read again: %d times, before %d", again, trees)
		}
	})
}

// TestOneSpelling is about identities of the same issuer with and without a slash.
func TestOneSpelling(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newReviewWorld(t, db, host.Gitea, nil)
		w.Exec(`UPDATE identities SET issuer = $1 WHERE user_id = $2`, codeHost+"/", w.ben.User.ID)
		w.identity(w.dan, codeHost+"/", fmt.Sprint(cydAt)) // one account of two members
		p := w.change(pdf("Two."))
		p.Review(benAt, approve)
		p.Review(cydAt, approve)
		version := w.pushed(p.Merge())
		w.want(version, "candidate", 1)
		if r := fmt.Sprint(w.review(version)["pull_request"]); !strings.Contains(r, "is not the account of a member") {
			t.Errorf("got %s", r)
		}
	})
}

// TestForgedEvents delivers events that were replayed, edited or made up. What they say is
// never believed: an event leads to a look at the code host, which decides.
func TestForgedEvents(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *store.DB, provider host.Provider) {
		w := newReviewWorld(t, db, provider, jsonObject{"approvals": 1})
		p := w.change(pdf("Two."))
		id := p.Review(benAt, approve)
		event, approved := p.ReviewEvent(provider, w.number()) // of the approval that follows
		p.Dismiss(id)
		version := w.pushed(p.Merge())
		w.want(version, "candidate", 0)

		// Replayed after the review was dismissed, also with the delivery's id from before.
		for range 2 {
			w.deliver(event, approved)
		}
		header, again := hosttest.Deliver(t, provider, secret, fmt.Sprint("d", w.sent), event, approved)
		w.Anonymous().Do(http.MethodPost, base+"/webhook", again, hosttest.Lines(header)...).Want(http.StatusAccepted)
		w.Settle()
		w.want(version, "candidate", 0)

		// Edited, with a signature of another body, of none, of another secret, or a good one.
		forged := strings.ReplaceAll(approved, `"number"`, `"review":{"state":"approved","user":{"id":102},"commit_id":"x"},"merged":true,"number"`)
		for _, signature := range []string{
			host.Sign(secret, []byte(approved)), "", "sha256=", "sha256=" + strings.Repeat("0", 64), host.Sign("", []byte(forged)),
			host.Sign(secret+" ", []byte(forged)), "sha1=" + strings.Repeat("0", 40),
			strings.ToUpper(host.Sign(secret, []byte(approved))),
		} {
			if a := w.deliverSigned(event, forged, signature); a.Status != http.StatusUnauthorized {
				t.Errorf("signed %q: %d %s", signature, a.Status, a.Body)
			}
		}
		numbered := func(n int) string {
			return strings.ReplaceAll(approved, fmt.Sprintf(`"number":%d`, p.Number), fmt.Sprintf(`"number":%d`, n))
		}
		for _, body := range []string{
			forged, numbered(0), numbered(-1), numbered(1 << 30),
			strings.ReplaceAll(approved, "acme/skills", "acme/../skills"), strings.ReplaceAll(approved, "acme/skills", "eve/skills"),
		} {
			w.deliverSigned(event, body, host.Sign(secret, []byte(body)))
			w.Settle()
		}
		w.want(version, "candidate", 0)
		w.release(version)

		// A stale one: of the head before the last commit. The review was of that head, too.
		q := w.change(pdf("Three."))
		q.Review(benAt, approve)
		_, stale := q.ReviewEvent(provider, w.number())
		w.work.Git("checkout", "--quiet", q.Branch)
		w.work.Commit("sneaked in", map[string]string{"pdf/more.md": "more"})
		w.work.Git("push", "--quiet", "origin", q.Branch)
		q.Update()
		second := w.pushed(q.Merge())
		w.deliver(event, stale)
		w.want(second, "candidate", 0)
		if n := w.Count("version_approvals"); n != 0 {
			t.Errorf("%d approvals are stored, want none", n)
		}
		// And a genuine one is counted, once for all its deliveries.
		q.Review(benAt, approve)
		for range 3 {
			w.reviewed(q)
		}
		w.want(second, "published", 1)
	})
}
