package clawhub

// What the tests of query plans call.
var (
	PublishersOf   = publishersOf
	NotesOf        = notesOf
	NotesAfter     = notesAfter
	PendingUploads = pendingUploads
	UploadsByID    = uploadsByID
)
