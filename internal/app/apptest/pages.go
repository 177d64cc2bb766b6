package apptest

// form is a form that a browser sends.
func form(path, body string, others map[string]int) Row {
	return Row{Path: path, Body: body, Type: "application/x-www-form-urlencoded", Others: others}
}

// spending is a form that uses up a thing.
func spending(kind, path, body string) Row {
	row := form(path, body, nil)
	row.Spends = kind
	return row
}

// Pages is the table of pages and forms, by RouteName. Others says only what
// is not refused; 303 leads to a page that refuses.
func Pages() map[string]Row {
	skill := "type=no_data&days=3&channel=email&address=oncall@example.org&skill=<skill>"
	decision := `decision=suite&source=<source>&suite=<suite>&case={"ID":"<suggestion>","Query":"<new>","Provenance":"missed_query","ShouldTrigger":true}`
	file := [][3]string{{"label", "", "<text>"}, {"file", "skill.tar.gz", "<archive>"}}
	return map[string]Row{
		"GET /login":                {},
		"POST /login":               form("", "api_key=none", nil),
		"POST /login/device":        form("", "next=/", nil),
		"GET /login/device":         {},
		"POST /login/device/finish": form("", "next=/", nil),
		"POST /logout":              form("", "x=", nil),
		"POST /theme":               form("", "theme=dark", nil),

		"GET /{}":                        {},
		"GET /skills":                    {Query: "q=<text>&show=unconfirmed"},
		"GET /skills/{}":                 {Path: "<skill>"},
		"POST /skills/{}":                form("<skill>", "change=unhide", nil),
		"GET /skills/{}/grader":          {Path: "<skill>"},
		"POST /skills/{}/improve-policy": form("<skill>", "mode=propose&monthly_usd=5", nil),
		"POST /skills/{}/grader":         form("<skill>", "expectations=<text>&threshold=100", nil),
		"GET /costs":                     {Query: "days=90"},

		"GET /sessions":            {Query: "skill=<skill>&user=me"},
		"GET /sessions/{}":         {Path: "<agent_session>"},
		"POST /sessions/{}/cases":  form("<agent_session>", "query=<new>&target=<source>", nil),
		"POST /sessions/{}/grades": form("<agent_session>", "skill=<skill>&verdict=fail&reason=<text>", nil),

		"GET /registry":                          {Query: "q=<text>"},
		"GET /registry/{}":                       {Path: "<entry>"},
		"GET /registry/{}/versions/{}":           {Path: "<entry> 1.1.0", Query: "from=1.0.0&file=SKILL.md"},
		"GET /registry/{}/versions/{}/download":  {Path: "<entry> 1.1.0"},
		"GET /registry/{}/versions/{}/diff":      {Path: "<entry> 1.1.0", Query: "from=1.0.0"},
		"GET /registry/{}/versions/{}/files/{}":  {Path: "<entry> 1.1.0 SKILL.md"},
		"POST /registry/{}/rollback":             spending("entry", "<entry>", "version=1.0.0&reason=<new>"),
		"POST /registry/{}/rollback/undo":        spending("undoable", "<undoable>", "reason=<new>"),
		"GET /gates":                             {Query: "verdict=block"},
		"GET /incidents":                         {Query: "state=open"},
		"GET /incidents/{}":                      {Path: "<incident>"},
		"GET /gates/{}":                          {Path: "<gate>"},
		"POST /gates/{}/rerun":                   spending("gate", "<gate>", "x="),
		"POST /gates/{}/override":                spending("gate", "<gate>", "reason=<new>"),
		"GET /registry/{}/gate-policy":           {Path: "<entry>"},
		"POST /registry/{}/gate-policy":          form("<entry>", "mode=off&trials=3&min_cases=8&max_minutes=30&on_inconclusive=hold", nil),
		"GET /registry/{}/publishers":            {Path: "<entry>"},
		"POST /registry/{}/publishers":           form("<entry>", "repository=acme/<new>", nil),
		"POST /registry/{}/publishers/{}/delete": spending("trusted_publisher", "<entry> <trusted_publisher>", "x="),
		"GET /settings/gate-policy":              {},
		"POST /settings/gate-policy":             form("", "mode=off&trials=3&min_cases=8&max_minutes=30&on_inconclusive=hold", nil),
		"POST /registry/{}/delete":               spending("entry", "<entry>", "confirm=<entry_name>"),
		"GET /registry/lock-file":                {},
		"POST /registry/lock-file": {
			Form: [][3]string{{"file", ".whetstone-lock.json", `{"skills":{"<entry_name>":{"entry_id":"<entry>"}}}`}}, Status: 200,
			Others: map[string]int{"entry": 200, "entry_name": 200},
		},

		"GET /repohost":                          {},
		"POST /repohost/settings":                form("", "mode=checks", nil),
		"POST /repohost/installations":           spending("installation", "", "installation_id=<installation>&account_login=<account>&account_type=User"),
		"POST /repohost/connections":             form("", "entry_id=<entry>&installation_id=<installation>&repo_full_name=<repository>&skill_path=<new>", nil),
		"GET /repohost/connections/new":          {Query: "installation=<installation>", Others: map[string]int{"installation": 200}},
		"GET /repohost/connections/{}":           {Path: "<connection>"},
		"POST /repohost/connections/{}":          form("<connection>", "auto_publish=1", nil),
		"POST /repohost/connections/{}/sync":     form("<connection>", "x=", nil),
		"POST /repohost/connections/{}/delete":   spending("connection", "<connection>", "x="),
		"POST /repohost/deliveries/{}/redeliver": form("<delivery>", "x=", nil),

		"GET /alerts":                   {},
		"GET /alerts/new":               {Query: "skill=<skill>"},
		"POST /alerts/preview":          form("", skill, map[string]int{"skill": 200}),
		"POST /alerts":                  form("", skill, map[string]int{"skill": 400}),
		"GET /alerts/{}":                {Path: "<alert>"},
		"POST /alerts/{}":               form("<alert>", "type=pass_rate_below&pass_rate=50&channel=email&address=eve@example.org", nil),
		"POST /alerts/{}/enabled":       form("<alert>", "enabled=false", nil),
		"POST /alerts/{}/test":          form("<alert>", "x=", nil),
		"POST /alerts/{}/ack":           form("<alert>", "x=", nil),
		"POST /alerts/{}/snooze":        form("<alert>", "hours=0", nil),
		"POST /alerts/{}/rotate-secret": form("<hook_alert>", "x=", nil),
		"POST /alerts/{}/delete":        spending("alert", "<alert>", "x="),

		"GET /community":           {Query: "skill=<skill_name>", Others: map[string]int{"skill_name": 200}},
		"GET /signals":             {},
		"GET /signals/{}":          {Path: "<skill_name>", Others: map[string]int{"skill_name": 200}},
		"GET /proposals":           {},
		"GET /proposals/{}":        {Path: "<proposal>"},
		"POST /proposals/{}":       form("<proposal>", "decision=approve", nil),
		"POST /proposals/{}/apply": form("<proposal>", "as=patch", nil),

		"GET /review":                      {Query: "source=<source>"},
		"GET /review/{}":                   {Path: "<source>"},
		"POST /review":                     form("", decision, map[string]int{"suggestion": 303}),
		"POST /review/undo":                form("", "scope=<source>", map[string]int{"source": 303}),
		"GET /sources":                     {},
		"POST /sources/upload":             {Form: file},
		"GET /sources/{}":                  {Path: "<source>"},
		"POST /sources/{}":                 form("<source>", "label=eve", nil),
		"POST /sources/{}/upload":          {Path: "<source>", Form: file},
		"POST /sources/{}/sync":            form("<repo_source>", "x=", nil),
		"POST /sources/{}/delete":          spending("source", "<source>", "confirm=<text>"),
		"GET /sources/{}/diff":             {Path: "<source>", Query: "from=<snapshot>&to=<snapshot>"},
		"GET /sources/{}/changes.diff":     {Path: "<source>", Query: "from=<snapshot>&to=<snapshot>"},
		"GET /sources/{}/files/{}":         {Path: "<source> SKILL.md", Query: "snapshot=<snapshot>"},
		"GET /sources/{}/validation.sarif": {Path: "<source>"},
		"GET /suites":                      {},
		"GET /suites/new":                  {Query: "source=<source>", Others: map[string]int{"source": 200}},
		"POST /suites/new":                 form("", `name=<new>&source=<source>&verifier=llm_judge&as=json&cases=[{"query":"x","expectation":"should_trigger"}]`, nil),
		"POST /suites/{}/runs/import":      {Path: "<suite>", Form: [][3]string{{"file", "aggregate-result.json", resultFile}}},
		"POST /suites/import":              {Form: [][3]string{{"name", "", "<new>"}, {"file", "cases.json", `[{"query":"x","should_trigger":true}]`}}},
		"GET /suites/{}":                   {Path: "<suite>"},
		"GET /suites/{}/export":            {Path: "<suite>", Query: "format=suite"},
		"POST /suites/{}":                  spending("suite", "<suite>", `name=<new>&verifier=llm_judge&as=json&cases=[{"query":"x","expectation":"should_trigger"}]`),
		"POST /suites/{}/delete":           spending("suite", "<suite>", "x="),
		"POST /suites/{}/runs":             form("<suite>", "subject=entry:<entry>", nil),
		"GET /suites/{}/compare":           {Path: "<suite>", Query: "run=<run>&with=<run>", Others: map[string]int{"suite": 303, "run": 303}},
		"GET /suites/{}/improve-runs":      {Path: "<queries>"},
		"GET /suites/{}/improve":           {Path: "<queries>", Query: "subject=entry:<entry>"},
		"POST /suites/{}/improve-runs":     form("<queries>", "subject=entry:<entry>&iterations=2&holdout=30", nil),
		"GET /improve-runs/{}":             {Path: "<improve_run>"},
		"GET /improve-runs/{}/events":      {Path: "<improve_run>"},
		"POST /improve-runs/{}/cancel":     spending("improve_run", "<improve_run>", "x="),
		"GET /runs/{}":                     {Path: "<run>"},
		"GET /runs/{}/events":              {Path: "<run>"},
		"GET /runs/{}/compare":             {Path: "<run>", Query: "with=<run>"},
		"GET /runs/{}/trials/{}":           {Path: "<run> 1", Query: "case=<case>"},
		"GET /runs/{}/trials/{}/compare":   {Path: "<run> 1", Query: "case=<case>&with=<run>"},
		"POST /runs/{}/cancel":             spending("run", "<run>", "x="),

		"GET /device":                   {},
		"POST /device":                  form("", "code=AAAA-AAAA&answer=deny", nil),
		"GET /account":                  {},
		"POST /account/sessions/{}/end": form("<session>", "x=", nil),

		"GET /settings":                    {},
		"GET /settings/members":            {},
		"POST /settings/members":           form("", "email=<new>@example.org&role=viewer", nil),
		"POST /settings/members/{}/role":   form("<user>", "role=owner", nil),
		"GET /settings/keys":               {},
		"POST /settings/keys":              form("", "name=<new>", nil),
		"POST /settings/keys/{}/revoke":    spending("key", "<key>", "x="),
		"GET /settings/catalog":            {},
		"POST /settings/catalog":           form("", "name=<new>", nil),
		"POST /settings/catalog/{}/rotate": spending("catalog_token", "<catalog_token>", "overlap=0"),
		"POST /settings/catalog/{}/delete": spending("catalog_token", "<catalog_token>", "x="),
		"GET /settings/audit":              {Query: "actor=user&action=evals.&target=<text>&since=2020-01-02&until=2120-01-02"},
		"GET /settings/prices":             {},
		"POST /settings/prices":            form("", `prices={"models":[{"match":"<text>*","input":3,"output":15}]}`, nil),
		"GET /settings/grader":             {},
		"POST /settings/grader":            form("", "expectations=<text>&threshold=100", nil),
		"GET /settings/content":            {},
		"POST /settings/content":           form("", "action=on", nil),
		"GET /settings/connect":            {},
		"POST /settings/connect":           form("", "for=agents", nil),
	}
}
