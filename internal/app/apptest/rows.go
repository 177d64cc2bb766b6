package apptest

import "github.com/whetstone-dev/whetstone/internal/platform/access"

// Bodies that several rows share.
const (
	decided = `"query":"<text>","should_trigger":true,"source":"linked_telemetry","provenance":"missed_query"`
	alert   = `{"type":"no_data","channel":"email","config":{"email":"oncall@example.org"},"skill_id":"<skill>"}`
	bundle  = `{"creator_id":"<user>","skill_name":"<skill_name>","bundle":{"schema_version":"1.2","contributor_id":"<new>",` +
		`"created_at":"2026-01-02T03:04:05Z","agent_type":"claude_code","sanitization_level":"conservative","positive_queries":[],` +
		`"eval_entries":[],"grading_summary":null,"evolution_summary":null,` +
		`"session_metrics":{"total_sessions":1,"avg_assistant_turns":1,"avg_tool_calls":1,"avg_errors":0}}}`
	push    = `{"schema_version":"2.0","push_id":"<new>","canonical":{"sessions":[{"session_id":"<new>","platform":"claude_code","started_at":"2026-01-02T03:04:05Z"}]}}`
	signal  = `{"signals":[{"skill_name":"<skill_name>","signal_type":"missed_trigger","confidence":0.5,"source_key":"<new>"}]}`
	suite   = `{"name":"<text>","source_id":"<source>","source_kind":"manual","verifier_kind":"llm_judge","cases_json":[{"case_kind":"trigger_query","query":"<text>","expectation":"should_trigger"}]}`
	changed = `{"name":"<text>","cases_json":[{"case_kind":"trigger_query","query":"<text>","expectation":"should_trigger"}]}`
	publish = `{"name":"<new>","entry_type":"skill","description":"<text>","version":"1.0.0"}`
	newer   = `{"name":"<entry_name>","version":"<new>","change_summary":"<text>"}`
	hook    = `{"ref":"refs/heads/other","after":"0000000000000000000000000000000000000001","repository":{"full_name":"<repository>"}}`
)

// resultFile is the result of a run that another tool made.
const resultFile = `{"schemaVersion":1,"claudeVersion":"2.1.325","startedAt":"2026-11-02T10:00:00Z","cases":[
	{"name":"<text>","promptMarkdown":"hi","arms":{"with":[{"score":1,"passed":true}]}}]}`

// suiteFile is a suite as people keep it in a file.
const suiteFile = `[{"query":"<text>","should_trigger":true}]`

// Rows is the table of routes, by RouteName.
func Rows() map[string]Row {
	unknownSkill := map[string]int{"skill": 400}
	return map[string]Row{
		"GET /api/v1/me":           {},
		"GET /api/v1/audit":        {Query: "target=<skill>", Others: map[string]int{"skill": 200}},
		"GET /api/v1/agents":       {},
		"GET /api/v1/usage":        {},
		"GET /api/v1/audit/export": {Query: "target=<skill>", Others: map[string]int{"skill": 200}},

		"GET /api/v1/event-webhooks":       {},
		"POST /api/v1/event-webhooks":      {Body: `{"url":"http://127.0.0.1:1/<text>","events":["version.withdrawn"]}`},
		"GET /api/v1/event-webhooks/{}":    {Path: "<event_webhook>"},
		"PATCH /api/v1/event-webhooks/{}":  {Path: "<event_webhook>", Body: `{"paused":true}`, Spends: "event_webhook"},
		"DELETE /api/v1/event-webhooks/{}": {Path: "<event_webhook>", Spends: "event_webhook"},

		"POST /api/v1/event-webhooks/{}/test":          {Path: "<event_webhook>"},
		"POST /api/v1/event-webhooks/{}/rotate-secret": {Path: "<event_webhook>"},
		"GET /api/v1/event-webhooks/{}/deliveries":     {Path: "<event_webhook>"},
		// A test is no event that could be sent again.
		"POST /api/v1/event-webhooks/{}/deliveries/{}/replay": {Path: "<event_webhook> <event_delivery>", Status: 409},

		"GET /api/v1/keys":             {Query: "service_account_id=<service_account>", Others: map[string]int{"service_account": 200}},
		"POST /api/v1/keys":            {Body: `{"name":"<text>","service_account_id":"<service_account>"}`, Others: map[string]int{"service_account": 400}},
		"PATCH /api/v1/keys/{}":        {Path: "<key>", Body: `{"name":"<text>"}`},
		"DELETE /api/v1/keys/{}":       {Path: "<key>", Spends: "key"},
		"GET /api/v1/sets":             {Query: "repository=<text>/docs"},
		"POST /api/v1/sets":            {Body: `{"name":"set-<new>","description":"<text>","entries":[{"entry_id":"<entry>"}],"teams":["<team>"],"repositories":["<text>/docs"]}`, Others: map[string]int{"entry": 400, "team": 400}},
		"GET /api/v1/sets/{}":          {Path: "<set>"},
		"PUT /api/v1/sets/{}":          {Path: "<set>", Body: `{"name":"set-<new>","description":"<text>","entries":[{"entry_id":"<entry>"}],"teams":["<team>"]}`, Others: map[string]int{"entry": 400, "team": 400}},
		"DELETE /api/v1/sets/{}":       {Path: "<set>", Spends: "set"},
		"GET /api/v1/sets/{}/coverage": {Path: "<set>"},

		"GET /api/v1/catalog-tokens":  {},
		"POST /api/v1/catalog-tokens": {Body: `{"name":"<text>"}`},
		"POST /api/v1/catalog-tokens/{}/rotate": {
			Path: "<catalog_token>", Body: `{"overlap_hours":0}`, Spends: "catalog_token",
		},
		"DELETE /api/v1/catalog-tokens/{}":              {Path: "<catalog_token>", Spends: "catalog_token"},
		"GET /api/v1/scim-tokens":                       {},
		"POST /api/v1/scim-tokens":                      {Body: `{"name":"<text>"}`},
		"DELETE /api/v1/scim-tokens/{}":                 {Path: "<scim_token>", Spends: "scim_token"},
		"GET /api/v1/scim-groups":                       {},
		"PUT /api/v1/scim-groups/{}":                    {Path: "<scim_group>", Body: `{"role":"viewer"}`},
		"GET /api/v1/trusted-publishers":                {Query: "entry_id=<entry>", Others: map[string]int{"entry": 200}},
		"POST /api/v1/trusted-publishers":               {Body: `{"entry_id":"<entry>","repository":"acme/<new>"}`, Others: map[string]int{"entry": 400}},
		"DELETE /api/v1/trusted-publishers/{}":          {Path: "<trusted_publisher>", Spends: "trusted_publisher"},
		"POST /api/v1/trusted-publishers/token":         {Body: `{"token":"<text>"}`, Status: 401},
		"GET /api/v1/registry/{}/versions/{}/publisher": {Path: "<entry> 1.0.0", Status: 404},
		"POST /api/v1/device-code":                      {Body: `{"client_id":"matrix"}`},
		"POST /api/v1/device-code/poll":                 {Body: `{"device_code":"<device>"}`, Others: map[string]int{"device": 200}},
		"GET /api/v1/device-code/poll":                  {Query: "device_code=<device>", Others: map[string]int{"device": 200}},
		"GET /api/v1/service-accounts":                  {},
		"POST /api/v1/service-accounts":                 {Body: `{"name":"<new>","role":"member"}`},
		"GET /api/v1/service-accounts/{}":               {Path: "<service_account>"},
		"PATCH /api/v1/service-accounts/{}":             {Path: "<service_account>", Body: `{"role":"viewer"}`},
		"DELETE /api/v1/service-accounts/{}":            {Path: "<service_account>", Spends: "service_account"},
		"GET /api/v1/key-policy":                        {},
		"PUT /api/v1/key-policy":                        {Body: `{"max_days":3650}`},
		"GET /api/v1/members":                           {},
		"PATCH /api/v1/members/{}":                      {Path: "<member>", Body: `{"role":"viewer"}`},
		"POST /api/v1/members/{}/transfer":              {Path: "<user>", Status: 409}, // is an owner already
		"DELETE /api/v1/members/{}":                     {Path: "<member>", Spends: "member"},
		"POST /api/v1/me/leave":                         {Body: `{"email":"<new>@example.org"}`, Status: 400}, // confirms nothing
		"GET /api/v1/teams":                             {},
		"POST /api/v1/teams":                            {Body: `{"name":"<new>","description":"<text>"}`},
		"GET /api/v1/teams/{}":                          {Path: "<team>"},
		"PATCH /api/v1/teams/{}":                        {Path: "<team>", Body: `{"description":"<text>"}`},
		"DELETE /api/v1/teams/{}":                       {Path: "<team>", Spends: "team"},
		"PUT /api/v1/teams/{}/members":                  {Path: "<team>", Body: `{"users":["<user>"]}`, Others: map[string]int{"user": 400}},
		"PUT /api/v1/teams/{}/members/{}":               {Path: "<team> <user>", Others: map[string]int{"user": 400}},
		"DELETE /api/v1/teams/{}/members/{}":            {Path: "<team> <member>", Status: 404}, // is not in it
		"GET /api/v1/registry/{}/owners":                {Path: "<entry>"},
		"PUT /api/v1/registry/{}/owners": {
			Path: "<entry>", Body: `{"users":["<user>"],"teams":["<team>"]}`, Others: map[string]int{"user": 400, "team": 400},
		},
		"GET /api/v1/invitations":          {},
		"POST /api/v1/invitations":         {Body: `{"role":"viewer"}`},
		"DELETE /api/v1/invitations/{}":    {Path: "<invitation>", Spends: "invitation"},
		"POST /api/v1/invitations/accept":  {Body: `{"token":"inv_none","name":"<text>"}`, Status: 404},
		"GET /api/v1/me/export":            {Whole: true},
		"POST /api/v1/organization/export": {},
		"GET /api/v1/organization/export":  {},
		"DELETE /api/v1/organization":      {Body: `{"confirm":"<new>"}`, Status: 400}, // confirms nothing

		"GET /v1/skills":      {Query: "q=<text>"},
		"GET /v1/skills/{}":   {Path: "<skill>"},
		"PATCH /v1/skills/{}": {Path: "<skill>", Body: `{"hidden":false}`},

		"GET /v1/costs":                {},
		"GET /api/v1/catalogue-report": {Query: "q=<text>&show=cut"},
		"GET /api/v1/settings/prices":  {},
		"PUT /api/v1/settings/prices":  {Body: `{"models":[{"match":"<text>*","valid_from":"2026-01-01","input":3,"output":15,"cache_read":0.3,"cache_write":3.75}]}`},
		"GET /v1/sessions":             {Query: "skill=<skill>&user=me"},
		"GET /v1/sessions/{}":          {Path: "<agent_session>"},
		"GET /api/v1/settings/content": {},
		"PUT /api/v1/settings/content": {Body: `{"enabled":true}`},
		"DELETE /api/v1/content":       {},

		"POST /v1/sessions/{}/grades": {
			Path: "<agent_session>", Body: `{"skill":"<skill>","verdict":"fail","reason":"<text>"}`, Others: map[string]int{"agent_session": 404, "skill": 400},
		},
		"POST /v1/sessions/{}/cases": {
			Path: "<agent_session>", Body: `{"skill":"<skill>","source_id":"<source>","query":"<text>"}`,
			Others: map[string]int{"agent_session": 404, "skill": 400, "source": 403},
		},
		"GET /v1/skills/{}/grader":         {Path: "<skill>"},
		"PUT /v1/skills/{}/grader":         {Path: "<skill>", Body: `{"enabled":false,"expectations":["<text>"]}`},
		"GET /v1/skills/{}/calibration":    {Path: "<skill>"},
		"GET /v1/skills/{}/failures":       {Path: "<skill>"},
		"GET /v1/skills/{}/improve-policy": {Path: "<skill>"},
		"PUT /v1/skills/{}/improve-policy": {Path: "<skill>", Body: `{"mode":"propose","monthly_usd":5}`},
		"GET /api/v1/settings/grader":      {},
		"PUT /api/v1/settings/grader":      {Body: `{"enabled":false,"expectations":["<text>"]}`},

		"POST /api/v1/alerts":                  {Body: alert, Others: unknownSkill},
		"GET /api/v1/alerts":                   {},
		"GET /api/v1/alerts/{}":                {Path: "<alert>"},
		"PATCH /api/v1/alerts/{}":              {Path: "<alert>", Body: `{"threshold":3}`, Spends: "alert"},
		"DELETE /api/v1/alerts/{}":             {Path: "<alert>", Spends: "alert"},
		"POST /api/v1/alerts/{}/test":          {Path: "<alert>"},
		"POST /api/v1/alerts/{}/ack":           {Path: "<alert>"},
		"POST /api/v1/alerts/{}/snooze":        {Path: "<alert>", Body: `{"until":null}`},
		"POST /api/v1/alerts/{}/rotate-secret": {Path: "<hook_alert>"},
		"GET /api/v1/alerts/{}/deliveries":     {Path: "<alert>"},
		"GET /api/v1/alert-events":             {Query: "alert_id=<alert>&skill_id=<skill>", Others: map[string]int{"alert": 200, "skill": 200}},

		"GET /api/v1/cloud-sources":                             {Query: "skill_id=<skill>", Others: map[string]int{"skill": 200}},
		"POST /api/v1/cloud-sources":                            {Body: `{"type":"upload","label":"<text>","skill_id":"<skill>"}`, Others: unknownSkill},
		"POST /api/v1/cloud-sources/upload":                     {Form: [][3]string{{"label", "", "<text>"}, {"source_id", "", "<source>"}, {"file", "skill.tar.gz", "<archive>"}}, Others: map[string]int{"source": 403}},
		"GET /api/v1/cloud-sources/{}":                          {Path: "<source>"},
		"PATCH /api/v1/cloud-sources/{}":                        {Path: "<source>", Body: `{"label":"<text>","skill_id":"<skill>"}`, Others: unknownSkill},
		"DELETE /api/v1/cloud-sources/{}":                       {Path: "<source>", Spends: "source"},
		"POST /api/v1/cloud-sources/{}/repohost-sync":           {Path: "<repo_source>"},
		"GET /api/v1/cloud-sources/{}/validation.sarif":         {Path: "<source>", Query: "snapshot_id=<snapshot>", Others: map[string]int{"snapshot": 404}},
		"GET /api/v1/cloud-sources/{}/snapshots/{}/files/{}":    {Path: "<source> <snapshot> SKILL.md"},
		"GET /api/v1/cloud-sources/{}/eval-suggestions":         {Path: "<source>"},
		"GET /api/v1/cloud-sources/{}/eval-suggestions/reviews": {Path: "<source>"},
		"POST /api/v1/cloud-sources/{}/eval-suggestions/review": {
			Path: "<source>", Body: `{"suggestion_id":"<suggestion>","review_status":"accepted","accept_target":"saved_suite","applied_suite_id":"<suite>",` + decided + `}`,
			Others: map[string]int{"suite": 404, "suggestion": 200}, // any UUID is taken: the body carries the case
		},
		"DELETE /api/v1/cloud-sources/{}/eval-suggestions/{}/review": {Path: "<source> <review>", Spends: "review"},
		"POST /api/v1/cloud-sources/{}/eval-suggestions/{}/apply-to-suite": {
			Path: "<source> <suggestion>", Body: `{"suite_id":"<suite>",` + decided + `}`, Others: map[string]int{"suite": 404, "suggestion": 200},
		},
		"POST /api/v1/cloud-sources/{}/drafts/apply": {Path: "<source>", Body: `{"suite_id":"<suite>"}`, Others: map[string]int{"suite": 404}},

		"GET /api/v1/eval-suites":                 {Query: "source_id=<source>", Others: map[string]int{"source": 200}},
		"POST /api/v1/eval-suites":                {Body: suite, Others: map[string]int{"source": 403}},
		"POST /api/v1/eval-suites/import":         {Form: [][3]string{{"name", "", "<text>"}, {"source_id", "", "<source>"}, {"file", "evals.json", suiteFile}}, Others: map[string]int{"source": 403}},
		"GET /api/v1/eval-suites/{}":              {Path: "<suite>"},
		"PATCH /api/v1/eval-suites/{}":            {Path: "<suite>", Body: changed, Spends: "suite"},
		"DELETE /api/v1/eval-suites/{}":           {Path: "<suite>", Spends: "suite"},
		"GET /api/v1/eval-suites/{}/export":       {Path: "<suite>"},
		"POST /api/v1/eval-suites/{}/runs":        {Path: "<suite>", Body: `{"subject":{"entry_id":"<entry>"}}`, Others: map[string]int{"entry": 404}},
		"GET /api/v1/eval-suites/{}/runs":         {Path: "<suite>"},
		"POST /api/v1/eval-suites/{}/runs/import": {Path: "<suite>", Form: [][3]string{{"file", "aggregate-result.json", resultFile}}, Spends: "suite"},
		"GET /api/v1/eval-suites/{}/estimate":     {Path: "<suite>"},
		"GET /api/v1/eval-runs/{}":                {Path: "<run>"},
		"POST /api/v1/eval-runs/{}/cancel":        {Path: "<run>", Spends: "run"},
		"GET /api/v1/eval-runs/{}/events":         {Path: "<run>"},
		"GET /api/v1/eval-runs/{}/trials/{}":      {Path: "<run> 1", Query: "case_id=<case>"},
		"POST /api/v1/comparisons": {
			Body:   `{"suite_id":"<suite>","trials":1,"arms":[{"entry_id":"<entry>"},{"entry_id":"<entry>","agent":{"name":"claude-code"}}]}`,
			Others: map[string]int{"entry": 400, "suite": 404},
		},
		"GET /api/v1/comparisons":            {Query: "suite_id=<suite>", Others: map[string]int{"suite": 200}},
		"GET /api/v1/comparisons/{}":         {Path: "<comparison>"},
		"POST /api/v1/comparisons/{}/cancel": {Path: "<comparison>", Spends: "comparison"},
		"POST /api/v1/eval-schedules": {
			Body: `{"suite_id":"<suite>","entry_id":"<entry>"}`, Others: map[string]int{"entry": 404, "suite": 404},
		},
		"GET /api/v1/eval-schedules":         {Query: "suite_id=<suite>&entry_id=<entry>", Others: map[string]int{"suite": 200, "entry": 200}},
		"GET /api/v1/eval-schedules/{}":      {Path: "<schedule>"},
		"PATCH /api/v1/eval-schedules/{}":    {Path: "<schedule>", Body: `{"cron":"0 4 * * *"}`, Spends: "schedule"},
		"DELETE /api/v1/eval-schedules/{}":   {Path: "<schedule>", Spends: "schedule"},
		"POST /api/v1/eval-schedules/{}/run": {Path: "<schedule>", Spends: "schedule"},
		"GET /api/v1/improve-runs":           {Query: "suite_id=<queries>", Others: map[string]int{"queries": 200}},
		"POST /api/v1/improve-runs": {
			Body: `{"entry_id":"<entry>","suite_id":"<queries>"}`, Others: map[string]int{"entry": 404, "queries": 404},
		},
		"POST /api/v1/improve-runs/estimate": {
			Body: `{"entry_id":"<entry>","suite_id":"<queries>"}`, Others: map[string]int{"entry": 404, "queries": 404},
		},
		"GET /api/v1/improve-runs/{}":         {Path: "<improve_run>"},
		"POST /api/v1/improve-runs/{}/cancel": {Path: "<improve_run>", Spends: "improve_run"},

		"GET /api/v1/repohost/settings":                 {},
		"POST /api/v1/repohost/settings":                {Body: `{"write_back_mode":"checks"}`},
		"GET /api/v1/repohost/installations":            {},
		"POST /api/v1/repohost/installations":           {Body: `{"installation_id":<installation>,"account_login":"<account>","account_type":"User"}`, Others: map[string]int{"installation": 409, "account": 409}, Spends: "installation"},
		"GET /api/v1/repohost/repos":                    {Query: "installation_id=<installation>", Others: map[string]int{"installation": 409}},
		"GET /api/v1/repohost/connections":              {},
		"POST /api/v1/repohost/connections":             {Body: `{"entry_id":"<entry>","installation_id":<installation>,"repo_full_name":"<repository>","skill_path":"<new>"}`, Others: map[string]int{"entry": 404, "installation": 409, "repository": 404}, Also: access.Admin},
		"PATCH /api/v1/repohost/connections/{}":         {Path: "<connection>", Body: `{"write_back_enabled":true}`},
		"DELETE /api/v1/repohost/connections/{}":        {Path: "<connection>", Spends: "connection"},
		"POST /api/v1/repohost/connections/{}/sync":     {Path: "<connection>"},
		"GET /api/v1/repohost/pull-requests":            {Query: "connection_id=<connection>", Others: map[string]int{"connection": 200}},
		"GET /api/v1/repohost/pull-requests/{}":         {Path: "<pull_request>"},
		"GET /api/v1/repohost/deliveries":               {},
		"POST /api/v1/repohost/deliveries/{}/redeliver": {Path: "<delivery>"},
		// Without a signature nobody is let in, whatever key they have.
		"POST /api/v1/repohost/webhook": {Body: hook, Status: 401, Others: map[string]int{"repository": 401}},

		"POST /api/v1/registry":                        {Form: [][3]string{{"metadata", "", publish}, {"archive", "skill.tar.gz", "<archive>"}}},
		"GET /api/v1/registry":                         {Query: "name=<entry_name>", Others: map[string]int{"entry_name": 200}},
		"GET /api/v1/registry/public":                  {},
		"GET /api/v1/registry/{}":                      {Path: "<entry>"},
		"PATCH /api/v1/registry/{}":                    {Path: "<entry>", Body: `{"visibility":"org"}`, Also: access.Admin},
		"DELETE /api/v1/registry/{}":                   {Path: "<entry>", Spends: "entry"},
		"POST /api/v1/registry/{}/versions":            {Path: "<entry>", Form: [][3]string{{"metadata", "", newer}, {"archive", "skill.tar.gz", "<archive>"}}, Others: map[string]int{"entry_name": 400}},
		"GET /api/v1/registry/{}/versions":             {Path: "<entry>"},
		"GET /api/v1/registry/{}/versions/{}/download": {Path: "<entry> 1.0.0"},
		"GET /api/v1/registry/{}/versions/{}/files/{}": {Path: "<entry> 1.0.0 SKILL.md"},
		"GET /api/v1/registry/{}/versions/{}/diff":     {Path: "<entry> 1.1.0", Query: "from=1.0.0"},

		"GET /api/v1/registry/{}/versions/{}/attestations": {Path: "<entry> 1.0.0"},

		"GET /api/v1/approvals":                                   {},
		"GET /api/v1/registry/{}/versions/{}/approvals":           {Path: "<entry> 1.0.0"},
		"POST /api/v1/registry/{}/versions/{}/approvals":          {Path: "<entry> 1.0.0", Body: `{"decision":"reject","comment":"<text>"}`, Status: 409}, // not a candidate any more
		"POST /api/v1/registry/{}/versions/{}/comments":           {Path: "<approvable> 1.2.0", Body: `{"comment":"<text>"}`, Spends: "approvable"},
		"POST /api/v1/registry/{}/versions/{}/approvals/override": {Path: "<approvable> 1.2.0", Body: `{"reason":"<text>"}`, Spends: "approvable"},

		"POST /api/v1/registry/{}/rollback":             {Path: "<entry>", Body: `{"target_version":"1.0.0","reason":"<text>"}`, Spends: "entry"},
		"GET /api/v1/registry/{}/rollback":              {Path: "<entry>"},
		"POST /api/v1/registry/{}/rollback/undo":        {Path: "<undoable>", Body: `{"reason":"<text>"}`, Spends: "undoable"},
		"POST /api/v1/registry/{}/versions/{}/promote":  {Path: "<candidate> 1.2.0", Body: `{"reason":"<text>"}`, Spends: "candidate"},
		"POST /api/v1/registry/{}/versions/{}/withdraw": {Path: "<candidate> 1.2.0", Body: `{"reason":"<text>"}`, Spends: "candidate"},
		"POST /api/v1/registry/{}/versions/{}/restore":  {Path: "<withdrawn> 1.0.0", Body: `{}`, Spends: "withdrawn"},
		"GET /api/v1/registry/{}/gate-policy":           {Path: "<entry>"},
		"PUT /api/v1/registry/{}/gate-policy":           {Path: "<entry>", Body: `{"policy":{"mode":"off","suites":["<suite>"]}}`, Others: map[string]int{"suite": 400}},
		"GET /api/v1/settings/gate-policy":              {},
		"PUT /api/v1/settings/gate-policy":              {Body: `{"policy":{"mode":"off","suites":["<suite>"]}}`, Others: map[string]int{"suite": 400}},
		"GET /api/v1/incidents":                         {},
		"GET /api/v1/incidents/{}":                      {Path: "<incident>"},
		"GET /api/v1/gates":                             {Query: "entry_id=<entry>", Others: map[string]int{"entry": 200}},
		"POST /api/v1/registry/{}/gates":                {Path: "<entry>", Body: `{"snapshot_id":"<snapshot>","suites":["<suite>"]}`, Others: map[string]int{"snapshot": 404, "suite": 400}},
		"GET /api/v1/gates/{}":                          {Path: "<gate>"},
		"POST /api/v1/gates/{}/rerun":                   {Path: "<gate>", Spends: "gate"},
		"POST /api/v1/gates/{}/override":                {Path: "<gate>", Body: `{"reason":"<text>"}`, Spends: "gate"},

		"POST /api/v1/registry/{}/install":      {Path: "<entry>", Body: `{"install_path":"<text>","device_id":"matrix"}`},
		"GET /api/v1/registry/{}/installations": {Path: "<entry>"},
		"GET /api/v1/registry/installed":        {},
		"POST /api/v1/registry/sync":            {Body: `{"installations":[{"entry_id":"<entry>","current_version_hash":"none"}]}`, Others: map[string]int{"entry": 200}},
		"POST /api/v1/registry/resolve":         {Body: `{"items":[{"name":"<entry_name>","from_here":true,"entry_id":"<entry>"}]}`, Others: map[string]int{"entry": 200, "entry_name": 200}},
		"GET /api/v1/registry/{}/requirements":  {Path: "<entry>"},
		"POST /api/v1/registry/requirements":    {Body: `{"skills":[{"entry_id":"<entry>","version":"1.0.0"}]}`, Others: map[string]int{"entry": 200}},
		"GET /api/v1/registry/sync/check":       {Query: "entry_id=<entry>&hash=none", Others: map[string]int{"entry": 200}},

		"POST /api/v1/community/bundles":          {Body: bundle, Others: map[string]int{"user": 201, "skill_name": 201}}, // a bundle is for anybody
		"GET /api/v1/community/bundles/schema":    {},
		"GET /api/v1/community/bundles/overview":  {},
		"GET /api/v1/community/bundles/skills/{}": {Path: "<skill_name>", Others: map[string]int{"skill_name": 200}},
		"GET /api/v1/community/bundles/recent":    {},

		"POST /api/v1/signals":                  {Body: signal, Others: map[string]int{"skill_name": 200}}, // a name, not an id
		"GET /api/v1/signals/aggregates":        {Query: "skill_name=<skill_name>", Others: map[string]int{"skill_name": 200}},
		"GET /api/v1/creator-signals/overview":  {},
		"GET /api/v1/creator-signals/skills/{}": {Path: "<skill_name>", Others: map[string]int{"skill_name": 200}},
		"GET /api/v1/creator-signals/proposals": {Query: "skill_name=<skill_name>", Others: map[string]int{"skill_name": 200}},
		"GET /api/v1/proposals":                 {Query: "skill_name=<skill_name>", Others: map[string]int{"skill_name": 200}},
		"GET /api/v1/proposals/{}":              {Path: "<proposal>"},
		"PATCH /api/v1/proposals/{}":            {Path: "<proposal>", Body: `{"proposed_value":"Reads them all.","status":"approved"}`},
		"POST /api/v1/proposals/{}/apply":       {Path: "<proposal>", Body: `{"as":"patch"}`, Status: 200},
		"POST /api/v1/proposals/{}/refresh":     {Path: "<proposal>"},

		"POST /api/v1/push":        {Body: push},
		"POST /v1/logs":            {Body: `{"resourceLogs":[]}`},
		"POST /v1/traces":          {Body: `{"resourceSpans":[]}`},
		"POST /v1/metrics":         {Body: `{"resourceMetrics":[]}`},
		"GET /api/v1/push/{}":      {Path: "<push>"},
		"GET /api/v1/alpha/verify": {},
		"DELETE /api/v1/me/data":   {},
	}
}
