package demo

// skillset returns the skills of the demo organisation: most are healthy, and each
// of the others shows a problem that the service detects.
func skillset() []skill {
	return append(officeSkills(), codeSkills()...)
}

// officeSkills are about documents. invoice-reader became worse with 1.4.0, and
// meeting-minutes is no longer used.
func officeSkills() []skill {
	return []skill{
		{
			name: "pdf-forms", title: "Fill PDF forms", perDay: 9,
			description: "Fills the fields of PDF forms from data the user has, and checks the result. Use when the user wants a PDF form, application or questionnaire filled in.",
			steps: []string{
				"List the form's fields with their types.",
				"Match each field with the data, and ask for what is missing.",
				"Fill the form and render it to check that nothing is cut off.",
			},
			asks: []string{
				"Fill in this PDF form with the data from customers.csv", "Complete the vacation request form for next week",
				"Put my address into the fields of application.pdf", "Fill the W-9 form for our new supplier",
				"Check that every required field of this PDF form is filled",
			},
			missed: []string{
				"Can you do the paperwork for the trade fair?", "Sign me up with the attached sheet",
				"Enter our bank details in the attachment",
			},
			releases: []edition{
				{version: "1.0.0", daysAgo: 130, passRate: .88, summary: "First version."},
				{version: "1.1.0", daysAgo: 61, passRate: .91, summary: "Knows check boxes and radio buttons."},
				{version: "1.2.0", daysAgo: 24, passRate: .96, summary: "Renders the result and looks for text that is cut off."},
			},
		},
		{
			name: "invoice-reader", title: "Read invoices", perDay: 10, requires: "csv-cleaner >= 1.0, pdf-forms",
			description: "Reads amounts, taxes, dates and parties from invoices and writes them as CSV or JSON. Use when the user has invoices or receipts to book, sum up or compare.",
			steps: []string{
				"Extract the text of each invoice, page by page.",
				"Find supplier, number, date, net, tax and total.",
				"Check that net and tax make the total, and mark what does not.", "Write one row an invoice.",
			},
			asks: []string{
				"Extract the totals of all invoices in this folder", "Make a CSV of these invoices with net, tax and total",
				"Which of these invoices are overdue?", "Read the tax id from the supplier's invoice",
				"Compare the invoice with the purchase order",
			},
			missed: []string{"How much did we spend on hosting in March?", "Book these receipts", "What do we owe the printer?"},
			releases: []edition{
				{version: "1.1.0", daysAgo: 120, passRate: .89, summary: "Reads scanned invoices."},
				{version: "1.2.0", daysAgo: 70, passRate: .93, summary: "Checks that net and tax make the total."},
				{version: "1.3.0", daysAgo: 38, passRate: .94, summary: "Several tax rates on one invoice."},
				{
					version: "1.4.0", daysAgo: 12, passRate: .41, tokenShare: .4,
					summary: "One pass over all pages instead of page by page, to save tokens.",
				},
			},
		},
		{
			name: "release-notes", title: "Write release notes", perDay: 6,
			description: "Writes release notes for users from commits, merged pull requests and issues. Use when the user asks for release notes, a changelog or a summary of what changed between two versions.",
			steps: []string{
				"Collect the changes between the two tags.", "Group them: new, changed, fixed, removed.",
				"Say what each means for a user, in one sentence.", "Put what breaks first.",
			},
			asks: []string{
				"Write the release notes for 2.4", "Summarise what changed since the last tag",
				"Turn these merged pull requests into a changelog",
				"Draft a changelog entry for the fixes of this week", "What is new for users between v3.1 and v3.2?",
			},
			missed: []string{"Tell the customers what they get on Monday", "Announce the new version", "What did we ship?"},
			releases: []edition{
				{version: "1.0.0", daysAgo: 110, passRate: .86, summary: "First version."},
				{version: "1.1.0", daysAgo: 45, passRate: .93, summary: "Puts breaking changes first."},
				{version: "1.1.1", daysAgo: 17, passRate: .95, summary: "Leaves out dependency updates nobody notices."},
			},
		},
		{
			name: "csv-cleaner", title: "Clean CSV files", perDay: 8, context: 8000,
			description: "Repairs CSV files: encodings, separators, dates, duplicates and empty columns. Use when the user has a CSV or spreadsheet export that does not load or looks wrong.",
			steps: []string{
				"Find out encoding, separator and quoting.", "Bring dates and numbers to one form.",
				"Report duplicates before removing them.", "Write the clean file beside the old one.",
			},
			asks: []string{
				"Clean up this CSV export", "Remove duplicate rows from contacts.csv", "The umlauts in this CSV are broken",
				"Bring all dates in this spreadsheet to one format", "Why does this CSV not load into the database?",
			},
			missed: []string{"The export looks weird", "Half of the columns are shifted"},
			releases: []edition{
				{version: "2.0.0", daysAgo: 150, passRate: .92, summary: "Streams, so that files may be of any size."},
				{version: "2.1.0", daysAgo: 33, passRate: .95, summary: "Recognises Excel's separators."},
			},
		},
		{
			name: "slide-deck", title: "Build slide decks", perDay: 5, context: 28000,
			description: "Builds slide decks in the house style from an outline or a document. Use when the user asks for slides, a presentation or a deck.",
			steps: []string{
				"Agree on the one thing that the audience should take away.",
				"Write one statement a slide, and then its evidence.", "Build the deck from the template.",
				"Check that no text runs out of its box.",
			},
			asks: []string{
				"Make slides from this outline", "Build a presentation of the quarterly results",
				"Turn this report into a deck of ten slides",
				"Put these charts into our slide template",
			},
			missed: []string{"I have to speak at the all-hands tomorrow", "Prepare my talk"},
			releases: []edition{
				{version: "1.0.0", daysAgo: 95, passRate: .87, summary: "First version."},
				{version: "1.1.0", daysAgo: 52, passRate: .91, summary: "Uses the new template."},
				{version: "1.2.0", daysAgo: 9, passRate: .93, summary: "Checks that no text runs out of its box."},
			},
		},
		{
			name: "meeting-minutes", title: "Write meeting minutes", perDay: 5, quietSince: 20,
			description: "Writes minutes with decisions and action items from a transcript of a meeting. Use when the user has a transcript or notes of a meeting.",
			steps: []string{
				"List who was there.", "Find decisions and who decided.",
				"List action items with owner and date.", "Keep it to one page.",
			},
			asks: []string{
				"Write the minutes of this meeting", "What was decided in the call?", "List the action items of this transcript",
			},
			missed: []string{"What do I have to do after yesterday?"},
			releases: []edition{
				{version: "1.0.0", daysAgo: 140, passRate: .9, summary: "First version."},
				{version: "1.0.1", daysAgo: 66, passRate: .91, summary: "Names the owner of each action item."},
			},
		},
	}
}

// codeSkills are about software. dependency-upgrade is in trouble, sql-review
// on its way there, api-docs went back a version, incident-timeline is new.
func codeSkills() []skill {
	return []skill{
		{
			name: "sql-review", title: "Review SQL", perDay: 8,
			description: "Reviews SQL queries and migrations for correctness, locks and missing indexes. Use when the user asks to check, review or speed up SQL, a query or a migration.",
			steps: []string{
				"Read the schema before the query.",
				"Look for scans of large tables and for locks that migrations take.",
				"Check NULLs, joins that multiply rows, and time zones.",
				"Give each remark with its line and a better version.",
			},
			asks: []string{
				"Review this SQL migration", "Why is this query slow?", "Check the join in report.sql",
				"Does this migration lock the orders table?",
				"Which index does this query need?",
			},
			missed: []string{
				"The dashboard takes ten seconds to load", "Is it safe to deploy this on Friday?",
				"The report counts some customers twice",
			},
			releases: []edition{
				{version: "0.8.0", daysAgo: 100, passRate: .76, summary: "Looks at migrations, too."},
				{version: "0.9.0", daysAgo: 57, passRate: .74, summary: "Explains the plan of the query."},
				{version: "0.9.1", daysAgo: 21, passRate: .71, summary: "Shorter remarks."},
			},
		},
		{
			name: "dependency-upgrade", title: "Upgrade dependencies", perDay: 7, context: 64000,
			description: "Upgrades dependencies one by one, reads their changelogs and fixes what breaks. Use when the user wants packages, libraries or a framework updated.",
			steps: []string{
				"List what is outdated, and by how much.", "Read the changelog between the two versions.",
				"Upgrade one package, run the tests, fix what broke.", "Commit each by itself.",
			},
			asks: []string{
				"Upgrade our dependencies", "Update React to the newest version", "Which packages are outdated?",
				"Bump the logging library and fix what breaks",
			},
			missed: []string{"The security scan complains again", "We are three years behind"},
			releases: []edition{
				{version: "0.1.0", daysAgo: 85, passRate: .55, summary: "First version."},
				{version: "0.2.0", daysAgo: 50, passRate: .48, summary: "Upgrades major versions, too."},
				{version: "0.2.1", daysAgo: 34, passRate: .36, summary: "Upgrades all packages at once."},
				{version: "0.3.0", daysAgo: 14, passRate: .38, summary: "Reads changelogs from the network."},
			},
		},
		{
			name: "test-writer", title: "Write tests", perDay: 10, context: 36000,
			description: "Writes unit and integration tests in the style of the project, cases of errors included. Use when the user asks for tests, coverage or a test for a bug.",
			steps: []string{
				"Read two existing tests for their style.", "List the cases before writing any.",
				"Write them, run them, and break the code once to see them fail.",
			},
			asks: []string{
				"Write tests for the parser", "Add a regression test for this bug", "Cover the error paths of upload.go",
				"Which cases do the tests of this package leave out?",
				"Turn these three tests into a table",
			},
			missed: []string{"Make sure that this never happens again", "How do we know that it works?"},
			releases: []edition{
				{version: "1.0.0", daysAgo: 160, passRate: .89, summary: "First version."},
				{version: "1.1.0", daysAgo: 80, passRate: .91, summary: "Reads existing tests for their style."},
				{version: "1.2.0", daysAgo: 41, passRate: .93, summary: "Lists the cases first."},
				{version: "1.3.0", daysAgo: 19, passRate: .95, summary: "Breaks the code once to see the tests fail."},
				{version: "1.3.1", daysAgo: 6, passRate: .95, summary: "Fewer mocks."},
			},
		},
		{
			name: "log-triage", title: "Triage logs", perDay: 6, context: 48000,
			description: "Finds the first error in logs and what led to it. Use when the user has logs, a stack trace or a failed build and asks what went wrong.",
			steps: []string{
				"Sort by time over all files.", "Find the first error, not the loudest.",
				"Show the lines before it, and say what is known and what is guessed.",
			},
			asks: []string{
				"What went wrong in this build log?", "Find the first error in these logs", "Explain this stack trace",
				"Why did the job fail last night?",
			},
			missed: []string{"The site was down at nine", "It works on my machine"},
			releases: []edition{
				{version: "1.0.0", daysAgo: 105, passRate: .9, summary: "First version."},
				{version: "1.0.1", daysAgo: 48, passRate: .92, summary: "Reads JSON logs."},
			},
		},
		{
			name: "api-docs", title: "Document APIs", perDay: 5,
			description: "Writes and updates API reference pages from code and OpenAPI files. Use when the user asks for API docs, reference pages or examples of requests.",
			steps: []string{
				"Read the routes and their types.", "Write what each does, who may call it, and its errors.",
				"Try every example against a running server.",
			},
			asks: []string{
				"Document the endpoints of the billing API", "Update the API reference for the new fields",
				"Write an example request for each route", "Which endpoints have no docs?",
			},
			missed: []string{"Partners ask how to call us", "Explain our interface to the mobile team"},
			releases: []edition{
				{version: "1.0.0", daysAgo: 115, passRate: .89, summary: "First version."},
				{version: "2.0.0", daysAgo: 43, passRate: .94, summary: "Starts from OpenAPI files."},
				{
					version: "2.1.0", daysAgo: 8, passRate: .45, summary: "Shorter pages.", undone: 5,
					reason: "The pages leave out the errors: four of six reviews failed.",
				},
			},
		},
		{
			name: "incident-timeline", title: "Write incident timelines", onlySessions: 3,
			description: "Writes the timeline of an incident from chat, alerts and deploys. Use when the user prepares a postmortem or asks what happened when.",
			steps: []string{
				"Collect messages, alerts and deploys with their times.", "Bring all times to UTC.",
				"Mark what is known and what is assumed.",
			},
			asks:   []string{"Write the timeline of yesterday's incident", "What happened when, from the first alert on?"},
			missed: []string{"Prepare the postmortem"},
			releases: []edition{
				{version: "0.1.0", daysAgo: 4, passRate: .8, summary: "First version."},
				{version: "0.1.1", daysAgo: 3, passRate: .9, summary: "All times in UTC."},
			},
		},
	}
}
