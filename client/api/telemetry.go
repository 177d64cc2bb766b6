package api

// A PushResult is the result of a push.
type PushResult struct {
	Status       string         `json:"status" enum:"accepted"`
	PushID       string         `json:"push_id" format:"uuid"`
	Duplicate    bool           `json:"duplicate,omitempty" doc:"The push was there already"`
	Accepted     int            `json:"accepted" doc:"Records taken"`
	Unattributed int            `json:"unattributed" doc:"Records taken whose skill is hidden by its producer"`
	Rejected     []Rejection    `json:"rejected" nullable:"false" doc:"Records that could not be taken; the first 1000 of them"`
	Content      *PushedContent `json:"content,omitempty" doc:"What became of the transcripts; missing without any"`
}

// PushedContent is how much of what was said the server keeps.
type PushedContent struct {
	Kept    int    `json:"kept" doc:"Texts that are kept now"`
	Dropped int    `json:"dropped" doc:"Texts that were not stored"`
	Message string `json:"message" doc:"Why texts were dropped, and what to do; empty if none were"`
}

// An Enrolment says what the server has got from the caller's key.
type Enrolment struct {
	Enrolled       bool    `json:"enrolled"`
	LastPushAt     *Time   `json:"last_push_at"`
	KeyPrefix      string  `json:"key_prefix" example:"st_live_3fKx"`
	KeyCreatedAt   Time    `json:"key_created_at"`
	TotalPushes    int     `json:"total_pushes"`
	LastPushStatus *string `json:"last_push_status"`
}

// A ReceivedPush is a push that the server has got.
type ReceivedPush struct {
	Status     string `json:"status" enum:"accepted"`
	PushID     string `json:"push_id"`
	Accepted   int    `json:"accepted"`
	Rejected   int    `json:"rejected"`
	ReceivedAt Time   `json:"received_at"`
}

// A Rejection is a rejected record of a push.
type Rejection struct {
	Kind    string `json:"kind"`
	Index   int    `json:"index" doc:"Position among the records of its kind"`
	Message string `json:"message"`
}
