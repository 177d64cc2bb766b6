package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestIsolationMatrixHosts is the part of the matrix that depends on the code
// host, on those that TestIsolationMatrix does not use.
func TestIsolationMatrixHosts(t *testing.T) {
	t.Parallel()
	for _, kind := range []host.Provider{host.GitHub, host.Gitea, host.GitLab} {
		if testing.Short() && kind == host.Gitea {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			each(t, storetest.URL, func(t *testing.T, flags []string) {
				m := newMatrix(t, flags, kind)
				m.claimAll()
				m.askOthers(slices.DeleteFunc(m.service.Routes(), func(r httpapi.Route) bool {
					return !strings.Contains(r.Path, "repohost") && !strings.Contains(r.Path, "cloud-sources")
				}))
				t.Logf("isolation matrix on %s: %d cells", kind, m.cells)
			})
		})
	}
}

// codeHost starts a code host on which both organisations have an account. The
// embedded one needs nothing.
func codeHost(t *testing.T, kind host.Provider) (flags []string, repos *hosttest.Repos) {
	t.Helper()
	switch kind {
	case host.GitHub:
		server := hosttest.NewGitHub(t, hosttest.NewRepos(t))
		server.Install(ourInstallation, ourMark)
		server.Install(theirInstallation, theirMark)
		return []string{
			"--repohost", "github", "--repohost-url", server.URL, "--repohost-app-id", strconv.FormatInt(server.AppID, 10),
			"--repohost-private-key=" + string(server.Key),
		}, server.Repos
	case host.Gitea:
		server := hosttest.NewGitea(t, hosttest.NewRepos(t))
		return []string{"--repohost", "gitea", "--repohost-url", server.URL, "--repohost-token", server.Token}, server.Repos
	case host.GitLab:
		server := hosttest.NewGitLab(t, hosttest.NewRepos(t))
		return []string{"--repohost", "gitlab", "--repohost-url", server.URL, "--repohost-token", server.Token}, server.Repos
	case host.Git:
	}
	return nil, nil
}

// claimAll lets the other organisation claim all that ours has on the code
// host: the account in every spelling and by every number, the repository by
// its own installation and by ours, as a connection and as a source.
func (m *matrix) claimAll() {
	m.Helper()
	as := caller{"another organisation that claims everything", apptest.Bearer(m.keys["other owner"]), true, access.Enterprise, rolePermissions[access.Owner], access.Owner, false, false}
	m.names[as.name] = true
	before := m.dump(m.ours.OrgID)
	ours, theirs := m.ours.Things, m.theirs.Things
	for _, account := range []string{ourMark, strings.ToUpper(ourMark), strings.ToUpper(ourMark[:1]) + ourMark[1:]} {
		for _, number := range []string{ours["installation"], theirs["installation"], "900001", "900002"} {
			body := fmt.Sprintf(`{"installation_id":%s,"account_login":%q,"account_type":"Organization"}`, number, account)
			m.claim(as, "/api/v1/repohost/installations", body, http.StatusConflict)
		}
	}
	m.claim(as, "/api/v1/repohost/installations", `{"installation_id":`+ours["installation"]+`,"account_login":"`+theirMark+`","account_type":"User"}`, http.StatusConflict)
	for number, want := range map[string]int{ours["installation"]: http.StatusConflict, theirs["installation"]: http.StatusNotFound} {
		for _, repository := range []string{ours["repository"], strings.ToUpper(ours["repository"])} {
			m.claim(as, "/api/v1/repohost/connections",
				fmt.Sprintf(`{"entry_id":%q,"installation_id":%s,"repo_full_name":%q}`, theirs["entry"], number, repository), want)
			m.claimSource(as, fmt.Sprintf(`{"type":"repohost","label":"x","installation_id":%s,"repo_full_name":%q}`, number, repository), want)
		}
	}
	for _, path := range []string{
		"/api/v1/repohost/repos?installation_id=" + theirs["installation"], "/api/v1/repohost/installations",
		"/api/v1/repohost/connections", "/api/v1/repohost/deliveries?per_page=100",
	} {
		r := httpapi.Route{Method: http.MethodGet, Path: path}
		a := m.ask(r, apptest.Request{Method: r.Method, Path: path}, as.header)
		m.want(r, as.name, a, http.StatusOK)
		m.wantNothing(r, as.name, a, nil)
	}
	m.wantUnchanged("what another organisation claims", before, m.ours.OrgID)
}

func (m *matrix) claim(as caller, path, body string, want int) apptest.Answer {
	m.Helper()
	r := httpapi.Route{Method: http.MethodPost, Path: path}
	a := m.ask(r, apptest.Request{Method: r.Method, Path: path, Body: []byte(body), Header: http.Header{"Content-Type": {"application/json"}}}, as.header)
	m.want(r, as.name+" by "+body, a, want)
	asked := apptest.Things{"account": strings.ToLower(ourMark), "upper": strings.ToUpper(ourMark), "title": strings.ToUpper(ourMark[:1]) + ourMark[1:]}
	m.wantNothing(r, as.name, a, asked)
	return a
}

// claimSource makes a source, which is no more than a note, of a repository
// that it must not read.
func (m *matrix) claimSource(as caller, body string, want int) {
	m.Helper()
	a := m.claim(as, "/api/v1/cloud-sources", body, http.StatusCreated)
	id, err := a.At("id")
	if err != nil {
		m.Fatal(err)
	}
	m.claim(as, "/api/v1/cloud-sources/"+id+"/repohost-sync", "{}", want)
	r := httpapi.Route{Method: http.MethodDelete, Path: "/api/v1/cloud-sources/" + id}
	m.want(r, as.name, m.ask(r, apptest.Request{Method: r.Method, Path: r.Path}, as.header), http.StatusNoContent)
}
