package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/web/privacy"
)

// A route is one page or form.
type route struct {
	permission   access.Permission // any session will do when empty
	owns         owns              // who may, too; nil for nobody
	plan         access.Plan       // any when empty
	public       bool              // needs no session
	method, path string
	maxBody      int64 // of a form, in bytes; httpapi.DefaultMaxBody when 0
	upload       bool  // a form with files, which do reads itself
	limit        *httpapi.Limit
	sorts        []string // that the list of a page can be sorted by, see listing.Request
	// An error is shown as a page; an answer that was refused has the status of its
	// problem.
	do   func(*Service, *visit) (answer, error)
	page string // the pattern of the page that a form is on; New sets it
}

// owns reports whether a caller without the permission may use a route all the same, since
// they own what its {id} names.
type owns func(s *Service, ctx context.Context, c access.Caller, id string) (bool, error)

// The orders of lists that several routes have.
var (
	costSorts   = []string{"-cost", "name", "-uses"}
	entrySorts  = []string{"name", "-installed", "-updated_at"}
	keySorts    = []string{"-created_at", "name", "-last_used_at", "expires_at"}
	memberSorts = []string{"created_at", "name", "email", "role", "-last_seen_at"}
	inviteSorts = []string{"-invited_at", "invited_email", "invited_role", "invitation_expires_at"}
	runSorts    = []string{"-created_at", "status", "-score", "-pass_rate", "-failed"}
)

// routes is the table of all pages and forms. New builds it once. GET routes change
// nothing, and every POST has a CSRF check; a test visits each of them.
func routes() []route {
	// Limits of public forms are per address, since there is no account to count
	// for. Only failures count at the login, so that an office behind one address is
	// not locked out.
	failures := &httpapi.Limit{Requests: 20, Per: time.Minute, By: httpapi.ByAddress, Failures: true}
	starts := &httpapi.Limit{Requests: 20, Per: time.Minute, By: httpapi.ByAddress}
	public := httpapi.PublicLimit()
	// A browser that waits for its login polls every five seconds, and each poll
	// reads a row.
	polls := &httpapi.Limit{Requests: 600, Per: time.Minute, By: httpapi.ByAddress, Local: true}
	// Codes are short: a signed-in person must not try many.
	codes := &httpapi.Limit{Requests: 20, Per: time.Minute, By: httpapi.ByKey}
	return []route{
		{public: true, method: "GET", path: "/login", limit: public, do: (*Service).handleLogin},
		{public: true, method: "POST", path: "/login", limit: failures, do: (*Service).handleSignIn},
		{
			public: true, method: "POST", path: "/login/device", limit: starts,
			do: (*Service).handleStartDeviceLogin,
		},
		{public: true, method: "GET", path: "/login/device", limit: polls, do: (*Service).handleDeviceLogin},
		{
			public: true, method: "POST", path: "/login/device/finish", limit: starts,
			do: (*Service).handleFinishDeviceLogin,
		},
		{public: true, method: "GET", path: "/login/oidc/{name}", limit: public, do: (*Service).handleStartSSO},
		{public: true, method: "GET", path: "/login/oidc/{name}/callback", limit: failures, do: (*Service).handleFinishSSO},
		{public: true, method: "GET", path: "/invite/{token}", limit: polls, do: (*Service).handleInvitation},
		{public: true, method: "POST", path: "/invite/{token}", limit: starts, do: (*Service).handleAccept},
		{public: true, method: "POST", path: "/logout", limit: public, do: (*Service).handleSignOut},
		{public: true, method: "POST", path: "/theme", limit: public, do: (*Service).handleSetTheme},

		// Skills, sessions, costs, and what agents list.
		{permission: access.Read, method: "GET", path: "/{$}", do: (*Service).handleHome},
		{permission: access.Read, method: "GET", path: "/search", do: (*Service).handleSearch},
		{permission: access.Read, method: "GET", path: "/skills", sorts: skillSorts, do: (*Service).handleSkills},
		{permission: access.Read, method: "GET", path: "/skills.csv", sorts: skillSorts, do: (*Service).handleExportSkills},
		{permission: access.Read, method: "GET", path: "/skills/{skill}", do: (*Service).handleSkill},
		{permission: access.Admin, method: "POST", path: "/skills/{skill}", do: (*Service).handleChangeSkill},
		{permission: access.Read, method: "GET", path: "/skills/{skill}/grader", do: (*Service).handleGrader},
		{permission: access.Admin, method: "POST", path: "/skills/{skill}/grader", do: (*Service).handleSetGrader},
		{permission: access.Admin, method: "POST", path: "/skills/{skill}/improve-policy", do: (*Service).handleSetImprovePolicy},
		{permission: access.Read, method: "GET", path: "/sessions", do: (*Service).handleSessions},
		{permission: access.Read, method: "GET", path: "/sessions.csv", do: (*Service).handleExportSessions},
		{permission: access.Read, method: "GET", path: "/sessions/{session}", do: (*Service).handleSession},
		{permission: access.Write, method: "POST", path: "/sessions/{session}/cases", do: (*Service).handleCreateCase},
		{permission: access.Write, method: "POST", path: "/sessions/{session}/grades", do: (*Service).handleGrade},
		{permission: access.Read, method: "GET", path: "/costs", sorts: costSorts, do: (*Service).handleCosts},
		{permission: access.Read, method: "GET", path: "/costs.csv", sorts: costSorts, do: (*Service).handleExportCosts},
		{permission: access.Read, method: "GET", path: "/catalogue", do: (*Service).handleCatalogue},
		{permission: access.Write, method: "POST", path: "/catalogue/runs", do: (*Service).handleTestCatalogue},

		// The registry. Lists have a CSV of the same filter beside them.
		{permission: access.Read, method: "GET", path: "/registry", sorts: entrySorts, do: (*Service).handleRegistry},
		{permission: access.Read, method: "GET", path: "/registry.csv", sorts: entrySorts, do: (*Service).handleExportRegistry},
		{permission: access.Read, method: "GET", path: "/registry/{id}/installations.csv", do: (*Service).handleExportInstallations},
		{permission: access.Read, method: "GET", path: "/registry/lock-file", do: (*Service).handleLockFile},
		{
			permission: access.Read, method: "POST", path: "/registry/lock-file", maxBody: sources.MaxUpload, upload: true,
			do: (*Service).handleCheckLockFile,
		},
		{permission: access.Read, method: "GET", path: "/registry/{id}", do: (*Service).handleRegistryEntry},
		{
			permission: access.Read, method: "GET", path: "/registry/{id}/versions/{version}",
			do: (*Service).handleRegistryVersion,
		},
		{
			permission: access.Read, method: "GET", path: "/registry/{id}/versions/{version}/download",
			do: (*Service).handleDownloadVersion,
		},
		{
			permission: access.Read, method: "GET", path: "/registry/{id}/versions/{version}/diff",
			do: (*Service).handleVersionDiff,
		},
		{
			permission: access.Read, method: "GET", path: "/registry/{id}/versions/{version}/files/{path...}",
			do: (*Service).handleVersionFile,
		},
		{
			permission: access.RegistryRollback, owns: (*Service).ownsEntry, plan: access.Pro, method: "POST", path: "/registry/{id}/rollback",
			do: (*Service).handleRollBackEntry,
		},
		{
			permission: access.RegistryRollback, owns: (*Service).ownsEntry, plan: access.Pro, method: "POST", path: "/registry/{id}/rollback/undo",
			do: (*Service).handleUndoRollback,
		},
		{
			permission: access.RegistryDelete, method: "POST", path: "/registry/{id}/delete",
			do: (*Service).handleDeleteEntry,
		},

		{
			permission: access.RegistryPush, plan: access.Pro, method: "GET", path: "/repohost",
			sorts: []string{"-received_at", "event", "repository", "state", "connection", "entry", "-attempted_at"}, do: (*Service).handleRepohost,
		},
		{
			permission: access.RegistryPush, plan: access.Pro, method: "POST", path: "/repohost/settings",
			do: (*Service).handleSetMode,
		},
		{
			permission: access.RegistryPush, plan: access.Pro, method: "POST", path: "/repohost/installations",
			do: (*Service).handleBindInstallation,
		},
		{
			permission: access.RegistryPush, plan: access.Pro, method: "POST", path: "/repohost/connections",
			do: (*Service).handleConnectRepo,
		},
		{
			permission: access.RegistryPush, plan: access.Pro, method: "GET", path: "/repohost/connections/new",
			do: (*Service).handleNewConnection,
		},
		{
			permission: access.RegistryPush, plan: access.Pro, method: "GET", path: "/repohost/connections/{id}",
			do: (*Service).handleConnection,
		},
		{
			permission: access.RegistryPush, plan: access.Pro, method: "POST", path: "/repohost/connections/{id}",
			do: (*Service).handleChangeConnection,
		},
		{
			permission: access.RegistryPush, plan: access.Pro, method: "POST", path: "/repohost/connections/{id}/sync",
			do: (*Service).handleSyncConnection,
		},
		{
			permission: access.RegistryPush, plan: access.Pro, method: "POST", path: "/repohost/connections/{id}/delete",
			do: (*Service).handleDisconnectRepo,
		},
		{
			permission: access.RegistryPush, plan: access.Pro, method: "POST", path: "/repohost/deliveries/{id}/redeliver",
			do: (*Service).handleRedeliver,
		},

		{permission: access.RegistryPush, method: "POST", path: "/registry/{id}/visibility", do: (*Service).handleSetVisibility},
		{permission: access.Admin, owns: (*Service).ownsEntry, method: "POST", path: "/registry/{id}/owners", do: (*Service).handleSetOwners},
		{permission: access.Read, method: "GET", path: "/registry/{id}/versions/{version}/review", do: (*Service).handleVersionReview},
		{permission: access.Write, method: "POST", path: "/registry/{id}/versions/{version}/review", do: (*Service).handleAnswerVersion},
		{
			permission: access.RegistryRollback, plan: access.Pro, method: "POST", path: "/registry/{id}/versions/{version}/review/override",
			do: (*Service).handleOverrideApprovals,
		},

		{
			permission: access.Read, method: "GET", path: "/incidents", sorts: []string{"-opened_at", "skill", "state", "-installations"},
			do: (*Service).handleIncidents,
		},
		{permission: access.Read, method: "GET", path: "/incidents/{id}", do: (*Service).handleIncident},
		{
			permission: access.Read, method: "GET", path: "/gates", sorts: []string{"-created_at", "version", "verdict"},
			do: (*Service).handleGates,
		},
		{permission: access.Read, method: "GET", path: "/gates/{id}", do: (*Service).handleGate},
		{permission: access.Write, method: "POST", path: "/gates/{id}/rerun", do: (*Service).handleRerunGate},
		{
			permission: access.RegistryRollback, plan: access.Pro, method: "POST", path: "/gates/{id}/override",
			do: (*Service).handleOverrideGate,
		},
		{permission: access.Read, method: "GET", path: "/registry/{id}/gate-policy", do: (*Service).handleGatePolicy},
		{permission: access.Admin, method: "POST", path: "/registry/{id}/gate-policy", do: (*Service).handleSetGatePolicy},
		{
			permission: access.Admin, method: "GET", path: "/registry/{id}/publishers",
			sorts: []string{"-created_at", "repository", "issuer", "ref", "workflow", "-last_used_at"}, do: (*Service).handlePublishers,
		},
		{permission: access.Admin, method: "POST", path: "/registry/{id}/publishers", do: (*Service).handleAddPublisher},
		{permission: access.Admin, method: "POST", path: "/registry/{id}/publishers/{publisher}/delete", do: (*Service).handleDeletePublisher},
		{permission: access.Read, method: "GET", path: "/settings/gate-policy", do: (*Service).handleGatePolicy},
		{permission: access.Admin, method: "POST", path: "/settings/gate-policy", do: (*Service).handleSetGatePolicy},

		{
			permission: access.Read, method: "GET", path: "/alerts", sorts: []string{"-created_at", "type", "enabled", "channel"},
			do: (*Service).handleAlerts,
		},
		{permission: access.Read, method: "GET", path: "/alerts/history.csv", do: (*Service).handleExportAlerts},
		{permission: access.Write, method: "GET", path: "/alerts/new", do: (*Service).handleAlertNew},
		{
			permission: access.Write, method: "POST", path: "/alerts/preview",
			do: (*Service).handlePreviewAlert,
		},
		{permission: access.Write, method: "POST", path: "/alerts", do: (*Service).handleCreateAlert},
		{permission: access.Read, method: "GET", path: "/alerts/{id}", do: (*Service).handleAlert},
		{permission: access.Write, method: "POST", path: "/alerts/{id}", do: (*Service).handleChangeAlert},
		{
			permission: access.Write, method: "POST", path: "/alerts/{id}/enabled",
			do: (*Service).handleEnableAlert,
		},
		{permission: access.Write, method: "POST", path: "/alerts/{id}/test", do: (*Service).handleTestAlert},
		{permission: access.Write, method: "POST", path: "/alerts/{id}/ack", do: (*Service).handleAcknowledgeAlert},
		{permission: access.Write, method: "POST", path: "/alerts/{id}/snooze", do: (*Service).handleSnoozeAlert},
		{
			permission: access.Write, method: "POST", path: "/alerts/{id}/rotate-secret",
			do: (*Service).handleRotateAlert,
		},
		{
			permission: access.Write, method: "POST", path: "/alerts/{id}/delete",
			do: (*Service).handleDeleteAlert,
		},

		{
			permission: access.Read, method: "GET", path: "/community", sorts: []string{"", "name", "-bundles", "-contributors", "-latest"},
			do: (*Service).handleCommunity,
		},
		{
			permission: access.Read, method: "GET", path: "/signals", sorts: []string{"", "name", "-signals"},
			do: (*Service).handleSignals,
		},
		{permission: access.Read, method: "GET", path: "/signals/{skill}", do: (*Service).handleSignalsSkill},
		{
			permission: access.Read, method: "GET", path: "/proposals", sorts: []string{"-created_at", "skill", "type", "status", "-confidence", "proposed_by"},
			do: (*Service).handleProposals,
		},
		{permission: access.Write, method: "POST", path: "/proposals", do: (*Service).handleChangeProposals},
		{permission: access.Read, method: "GET", path: "/proposals/{id}", do: (*Service).handleProposal},
		{
			permission: access.Write, method: "POST", path: "/proposals/{id}",
			do: (*Service).handleChangeProposal,
		},
		{
			permission: access.RegistryPush, plan: access.Pro, method: "POST", path: "/proposals/{id}/apply",
			do: (*Service).handleApplyProposal,
		},

		{permission: access.Read, method: "GET", path: "/review", do: (*Service).handleReview},
		{permission: access.Read, method: "GET", path: "/review/{source}", do: (*Service).handleReview},
		{permission: access.Write, method: "POST", path: "/review", do: (*Service).handleDecide},
		{permission: access.Write, method: "POST", path: "/review/undo", do: (*Service).handleUndo},
		{
			permission: access.Read, method: "GET", path: "/sources", sorts: []string{"-created_at", "label", "origin", "skill", "-waiting"},
			do: (*Service).handleSources,
		},
		{
			permission: access.Write, method: "POST", path: "/sources/upload", maxBody: sources.MaxUpload, upload: true,
			do: (*Service).handleUploadSource,
		},
		{permission: access.Read, method: "GET", path: "/sources/{id}", do: (*Service).handleSource},
		{permission: access.Write, method: "POST", path: "/sources/{id}", do: (*Service).handleChangeSource},
		{
			permission: access.Write, method: "POST", path: "/sources/{id}/upload", maxBody: sources.MaxUpload, upload: true,
			do: (*Service).handleUploadSnapshot,
		},
		{permission: access.Write, method: "POST", path: "/sources/{id}/drafts", do: (*Service).handleApplyDrafts},
		{
			permission: access.Write, method: "POST", path: "/sources/{id}/sync",
			do: (*Service).handleSyncSource,
		},
		{
			permission: access.Write, method: "POST", path: "/sources/{id}/delete",
			do: (*Service).handleDeleteSource,
		},
		{permission: access.Read, method: "GET", path: "/sources/{id}/diff", do: (*Service).handleSourceDiff},
		{
			permission: access.Read, method: "GET", path: "/sources/{id}/changes.diff",
			do: (*Service).handleSourceChanges,
		},
		{
			permission: access.Read, method: "GET", path: "/sources/{id}/files/{path...}",
			do: (*Service).handleSourceFile,
		},
		{
			permission: access.Read, method: "GET", path: "/sources/{id}/validation.sarif",
			do: (*Service).handleSourceSARIF,
		},
		{
			permission: access.Read, method: "GET", path: "/suites", sorts: []string{"-created_at", "name", "verifier", "-cases"},
			do: (*Service).handleSuites,
		},
		{permission: access.Write, method: "GET", path: "/suites/new", do: (*Service).handleNewSuite},
		{
			permission: access.Write, method: "POST", path: "/suites/new", maxBody: maxSuite,
			do: (*Service).handleCreateSuite,
		},
		{
			permission: access.Write, method: "POST", path: "/suites/import", maxBody: suites.MaxImport, upload: true,
			do: (*Service).handleImportSuite,
		},
		{
			permission: access.Read, method: "GET", path: "/suites/{id}/export",
			do: (*Service).handleExportSuite,
		},
		{permission: access.Read, method: "GET", path: "/comparisons", do: (*Service).handleComparisons},
		{permission: access.Write, method: "GET", path: "/comparisons/new", do: (*Service).handleNewComparison},
		{permission: access.Write, method: "POST", path: "/comparisons", do: (*Service).handleStartComparison},
		{permission: access.Read, method: "GET", path: "/comparisons/{id}", do: (*Service).handleComparison},
		{permission: access.Read, method: "GET", path: "/comparisons/{id}/cases.csv", do: (*Service).handleExportComparison},
		{permission: access.Write, method: "POST", path: "/comparisons/{id}/cancel", do: (*Service).handleCancelComparison},
		{permission: access.Read, method: "GET", path: "/suites/{id}", sorts: runSorts, do: (*Service).handleSuite},
		{
			permission: access.Write, method: "POST", path: "/suites/{id}", maxBody: maxSuite,
			do: (*Service).handleSaveSuite,
		},
		{
			permission: access.Write, method: "POST", path: "/suites/{id}/delete",
			do: (*Service).handleDeleteSuite,
		},
		{permission: access.Read, method: "GET", path: "/suites/{id}/runs.csv", sorts: runSorts, do: (*Service).handleExportRuns},
		{permission: access.Write, method: "GET", path: "/suites/{id}/cases/{n}", do: (*Service).handleCase},
		{permission: access.Write, method: "POST", path: "/suites/{id}/cases/{n}", maxBody: maxSuite, do: (*Service).handleSaveCase},
		{permission: access.Write, method: "POST", path: "/suites/{id}/runs", do: (*Service).handleStartRun},
		{
			permission: access.Write, method: "POST", path: "/suites/{id}/runs/import", maxBody: suites.MaxImport, upload: true,
			do: (*Service).handleImportRun,
		},
		{
			permission: access.Read, method: "GET", path: "/suites/{id}/compare",
			do: (*Service).handleCompareChosen,
		},
		{
			permission: access.Read, method: "GET", path: "/suites/{id}/improve-runs",
			sorts: []string{"-created_at", "status"}, do: (*Service).handleImproveRuns,
		},
		{permission: access.Read, method: "GET", path: "/suites/{id}/improve", do: (*Service).handleNewImprove},
		{
			permission: access.Write, method: "POST", path: "/suites/{id}/improve-runs",
			do: (*Service).handleStartImprove,
		},
		{permission: access.Read, method: "GET", path: "/improve-runs/{id}", do: (*Service).handleImproveRun},
		{
			permission: access.Read, method: "GET", path: "/improve-runs/{id}/events",
			do: (*Service).handleImproveEvents,
		},
		{
			permission: access.Write, method: "POST", path: "/improve-runs/{id}/cancel",
			do: (*Service).handleCancelImprove,
		},
		{permission: access.Read, method: "GET", path: "/runs/{id}", do: (*Service).handleRun},
		{permission: access.Read, method: "GET", path: "/runs/{id}/cases.csv", do: (*Service).handleExportCases},
		{permission: access.Read, method: "GET", path: "/runs/{id}/events", do: (*Service).handleRunEvents},
		{permission: access.Read, method: "GET", path: "/runs/{id}/compare", do: (*Service).handleCompare},
		{permission: access.Read, method: "GET", path: "/runs/{id}/trials/{n}", do: (*Service).handleTrial},
		{permission: access.Read, method: "GET", path: "/runs/{id}/trials/{n}/compare", do: (*Service).handleTrialsBeside},
		{permission: access.Write, method: "POST", path: "/runs/{id}/cancel", do: (*Service).handleCancelRun},

		{method: "GET", path: "/device", limit: codes, do: (*Service).handleDevice},
		{method: "POST", path: "/device", limit: codes, do: (*Service).handleAnswerDevice},
		{method: "GET", path: "/account", do: (*Service).handleAccount},
		{method: "POST", path: "/account/sessions/{id}/end", do: (*Service).handleEndSession},
		{method: "GET", path: "/account/link/{name}", do: (*Service).handleStartLink},
		{method: "GET", path: "/account/link", do: (*Service).handleOffer},
		{method: "POST", path: "/account/link", do: (*Service).handleLink},
		{method: "POST", path: "/account/identities/{id}/unlink", do: (*Service).handleUnlink},
		{method: "POST", path: "/account/leave", do: (*Service).handleLeave},

		{permission: access.Read, method: "GET", path: "/settings", do: (*Service).handleSettings},
		{permission: access.Read, method: "GET", path: "/settings/plan", do: (*Service).handlePlan},
		{permission: access.Read, method: "GET", path: "/settings/members", sorts: append(slices.Clip(memberSorts), inviteSorts...), do: (*Service).handleMembers},
		{permission: access.Read, method: "GET", path: "/settings/members.csv", sorts: memberSorts, do: (*Service).handleExportMembers},
		{permission: access.Admin, method: "GET", path: "/settings/members/{id}", do: (*Service).handleMember},
		{permission: access.Admin, method: "POST", path: "/settings/members/{id}/role", do: (*Service).handleSetRole},
		{permission: access.Admin, method: "POST", path: "/settings/members/{id}/transfer", do: (*Service).handleTransfer},
		{permission: access.Admin, method: "POST", path: "/settings/members/{id}/remove", do: (*Service).handleRemoveMember},
		{
			permission: access.Read, method: "GET", path: "/settings/teams", sorts: []string{"name", "-created_at"},
			do: (*Service).handleTeams,
		},
		{permission: access.Admin, method: "POST", path: "/settings/teams", do: (*Service).handleTeams},
		{permission: access.Read, method: "GET", path: "/settings/teams/{id}", do: (*Service).handleTeam},
		{permission: access.Admin, method: "POST", path: "/settings/teams/{id}", do: (*Service).handleTeam},
		{permission: access.Admin, method: "POST", path: "/settings/teams/{id}/delete", do: (*Service).handleDeleteTeam},
		{
			permission: access.Admin, method: "GET", path: "/settings/provisioning", sorts: []string{"created_at", "name", "role"},
			do: (*Service).handleProvisioning,
		},
		{permission: access.Admin, method: "POST", path: "/settings/provisioning", do: (*Service).handleCreateSCIMToken},
		{permission: access.Admin, method: "POST", path: "/settings/provisioning/{id}/delete", do: (*Service).handleDeleteSCIMToken},
		{permission: access.Admin, method: "POST", path: "/settings/provisioning/groups/{id}/role", do: (*Service).handleSetGroupRole},
		{permission: access.Admin, method: "POST", path: "/settings/members/invitations", do: (*Service).handleInvite},
		{permission: access.Admin, method: "POST", path: "/settings/members/invitations/{id}/revoke", do: (*Service).handleRevokeInvitation},
		{permission: access.Admin, method: "GET", path: "/settings/keys", sorts: keySorts, do: (*Service).handleKeys},
		{permission: access.Admin, method: "POST", path: "/settings/keys", do: (*Service).handleKeys},
		{permission: access.Admin, method: "POST", path: "/settings/key-policy", do: (*Service).handleSetKeyPolicy},
		{
			permission: access.Admin, method: "GET", path: "/settings/service-accounts", sorts: []string{"created_at", "name", "role", "-last_used_at"},
			do: (*Service).handleAccounts,
		},
		{permission: access.Admin, method: "POST", path: "/settings/service-accounts", do: (*Service).handleAccounts},
		{
			permission: access.Admin, method: "GET", path: "/settings/service-accounts/{id}", sorts: keySorts,
			do: (*Service).handleServiceAccount,
		},
		{permission: access.Admin, method: "POST", path: "/settings/service-accounts/{id}", do: (*Service).handleServiceAccount},
		{permission: access.Admin, method: "POST", path: "/settings/service-accounts/{id}/delete", do: (*Service).handleDeleteAccount},
		{
			permission: access.Admin, method: "POST", path: "/settings/keys/{id}/revoke",
			do: (*Service).handleRevokeKey,
		},
		{permission: access.Admin, method: "GET", path: "/settings/webhooks", sorts: webhookSorts, do: (*Service).handleWebhooks},
		{permission: access.Admin, method: "POST", path: "/settings/webhooks", do: (*Service).handleWebhooks},
		{permission: access.Admin, method: "GET", path: "/settings/catalog", sorts: keySorts, do: (*Service).handleTokens},
		{permission: access.Admin, method: "POST", path: "/settings/catalog", do: (*Service).handleCreateToken},
		{permission: access.Admin, method: "POST", path: "/settings/catalog/{id}/rotate", do: (*Service).handleRotateToken},
		{permission: access.Admin, method: "POST", path: "/settings/catalog/{id}/delete", do: (*Service).handleDeleteToken},
		{permission: access.Read, method: "GET", path: "/settings/prices", do: (*Service).handlePrices},
		{permission: access.Admin, method: "POST", path: "/settings/prices", do: (*Service).handleSetPrices},
		{permission: access.Read, method: "GET", path: "/settings/grader", do: (*Service).handleGrader},
		{permission: access.Admin, method: "POST", path: "/settings/grader", do: (*Service).handleSetGrader},
		{permission: access.Read, method: "GET", path: "/settings/content", do: (*Service).handleContent},
		// Owners only: see evidence.
		{permission: access.Admin, method: "POST", path: "/settings/content", do: (*Service).handleSetContent},
		{permission: access.Read, method: "GET", path: "/settings/privacy", do: (*Service).handlePrivacy},
		{permission: access.Admin, method: "POST", path: "/settings/privacy", do: (*Service).handleChangePrivacy}, // owners only
		{permission: access.Read, method: "GET", path: "/account/export", limit: privacy.PersonLimit(), do: (*Service).handleMyData},
		{permission: access.Admin, method: "GET", path: "/settings/audit", do: (*Service).handleAudit},
		{permission: access.Admin, method: "GET", path: "/settings/audit.csv", do: (*Service).handleExportAudit},
		{permission: access.Read, method: "GET", path: "/settings/connect", do: (*Service).handleConnect},
		{
			permission: access.Admin, method: "POST", path: "/settings/connect",
			do: (*Service).handleConnectWithKey,
		},
	}
}

// findPages tells every form which page it is on. It answers a GET of the form's own
// address, e.g. after a login or a reload.
func findPages(all []route) []route {
	for i := range all {
		all[i].page = pageOfForm(all[i].path, func(pattern string) bool {
			return slices.ContainsFunc(all, func(r route) bool { return r.method == http.MethodGet && r.path == pattern })
		})
	}
	return all
}

// whenFull reports whether a form is served while the disk is full: those that
// sign in or out, and those that free space. It goes by the last segment of the
// path, which names the action.
func whenFull(path string) bool {
	switch path[strings.LastIndexByte(path, '/')+1:] {
	case "login", "logout", "device", "finish", "theme", "end", "revoke", "delete", "cancel", "remove":
		return true
	}
	return false
}

// Routes lists the pages and forms, for the tests that check each of them.
func (s *Service) Routes() []httpapi.Route {
	var all []httpapi.Route
	for _, r := range s.routes {
		all = append(all, httpapi.Route{
			Permission: r.permission, Plan: r.plan, Public: r.public, Method: r.method, Path: r.path,
			Limit: r.limit, WhenFull: whenFull(r.path),
		})
	}
	return all
}

// Mount adds the pages, the static files, and the page for unknown paths.
func (s *Service) Mount(a *httpapi.API) {
	s.api = a
	for _, r := range s.routes {
		a.Handle(r.method+" "+r.path, nil, s.handler(r))
		if r.method == http.MethodPost && r.page != r.path {
			a.Handle("GET "+r.path, httpapi.PublicLimit(), http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				// A person who reloads or shares the address of a form gets the page
				// that it is on.
				http.Redirect(w, req, addressOf(r.page, req.URL.EscapedPath()), http.StatusSeeOther)
			}))
		}
	}
	a.Handle("GET /static/{name}", httpapi.PublicLimit(), http.HandlerFunc(s.serveAsset))
	// Only what strangers can open is for search engines.
	a.Handle("GET /robots.txt", httpapi.PublicLimit(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("User-agent: *\nAllow: /login\nAllow: /static/\nDisallow: /\n")) // fails if the client is gone
	}))
	a.Handle("GET /favicon.ico", httpapi.PublicLimit(), http.RedirectHandler(s.assets.url("icon.svg"), http.StatusFound))
	a.HandleMissing(s.handler(route{public: true, method: "GET", do: (*Service).handleMissing}))
}
