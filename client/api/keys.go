package api

// A Key is an API key, without its secret.
type Key struct {
	ID          string   `json:"id" format:"uuid"`
	UserID      string   `json:"user_id" format:"uuid"`
	Name        string   `json:"name" example:"CI"`
	Prefix      string   `json:"prefix" example:"st_live_3fKx" doc:"What the key begins with"`
	Permissions []string `json:"permissions" nullable:"true" doc:"Null: all that the holder's role gives"`
	CreatedAt   Time     `json:"created_at"`
	LastUsedAt  *Time    `json:"last_used_at"`
	ExpiresAt   *Time    `json:"expires_at"`
	RevokedAt   *Time    `json:"revoked_at"`
	// CreatedByKey and Login show which keys came from a stolen one.
	CreatedByKey *string  `json:"created_by_key" format:"uuid" doc:"The key that made or approved this one; null if it was made on the server"`
	Login        bool     `json:"login" doc:"It came from a device login, and is revoked with the key that approved it"`
	Relay        bool     `json:"relay,omitempty" doc:"It may name the contributors of signals (user_cohort)"`
	EntryID      *string  `json:"entry_id,omitempty" format:"uuid" doc:"A key of a trusted publisher: it pushes versions of this registry entry, and does nothing else"`
	AllowedIPs   []string `json:"allowed_ips" nullable:"false" example:"[\"10.0.0.0/8\"]" doc:"Networks from which it works; empty: from everywhere"`
	Violates     []string `json:"violates,omitempty" enum:"max_days,require_allowed_ips" doc:"What of the key policy it does not follow; it works all the same"`
}
