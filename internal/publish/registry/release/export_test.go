package release

// IDBefore is exported for the test of its plan.
var IDBefore = idBefore
