package clawhub

// What the tests of query plans call.
var (
	PendingUploads = pendingUploads
	UploadsByID    = uploadsByID
)
