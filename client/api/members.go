package api

// A Member is a person or a machine in an organisation.
type Member struct {
	UserID     string `json:"user_id" format:"uuid"`
	Name       string `json:"name" example:"Ada"`
	Email      string `json:"email" example:"ada@example.org"`
	Role       string `json:"role" enum:"viewer,member,admin,owner"`
	Kind       string `json:"kind" enum:"person,machine" doc:"A machine holds the keys of machines with its role"`
	CreatedAt  Time   `json:"created_at"`
	LastSeenAt *Time  `json:"last_seen_at" doc:"The last use of a key or session, to within seconds; null: never"`
	RemovedAt  *Time  `json:"removed_at" doc:"Null for members"`
}

// An Invitation lets a person become a member.
type Invitation struct {
	ID         string          `json:"id" format:"uuid"`
	Role       string          `json:"role" enum:"viewer,member,admin,owner"`
	Email      *string         `json:"email" doc:"Null: whoever accepts says it"`
	State      string          `json:"state" enum:"pending,accepted,expired,revoked"`
	CreatedBy  *string         `json:"created_by" format:"uuid" doc:"The user; null: it was made on the server"`
	CreatedAt  Time            `json:"created_at"`
	ExpiresAt  Time            `json:"expires_at"`
	AcceptedAt *Time           `json:"accepted_at"`
	AcceptedBy *string         `json:"accepted_by" format:"uuid"`
	Mail       *InvitationMail `json:"mail" doc:"The mail with the link; null: none is sent, as there is no mail server or no address"`
}

// InvitationMail is the mail with the link of an invitation.
type InvitationMail struct {
	Status      string  `json:"status" enum:"pending,retrying,delivered,failed" doc:"delivered: the mail server has taken it"`
	Attempts    int     `json:"attempts"`
	Detail      *string `json:"detail" doc:"What the mail server said at the last attempt, or why none is made"`
	AttemptedAt *Time   `json:"attempted_at"`
}

// A ServiceAccount is an account for a machine, e.g. a deployment.
type ServiceAccount struct {
	ID         string `json:"id" format:"uuid" doc:"Also the user_id of its keys and of what it makes"`
	Name       string `json:"name" example:"deploy-bot"`
	Role       string `json:"role" enum:"viewer,member,admin"`
	Keys       int    `json:"keys" doc:"Its active keys"`
	CreatedAt  Time   `json:"created_at"`
	LastUsedAt *Time  `json:"last_used_at" doc:"The last use of one of its keys, to within seconds; null: never"`
	DeletedAt  *Time  `json:"deleted_at" doc:"Null unless it was deleted"`
}

// A KeyPolicy says what new API keys must have.
type KeyPolicy struct {
	MaxDays           *int  `json:"max_days" doc:"How long a new key lives at most; null: keys need not expire"`
	RequireAllowedIPs bool  `json:"require_allowed_ips" doc:"A new key needs allowed_ips; device logins and the first key of an invited person do not"`
	UpdatedAt         *Time `json:"updated_at" doc:"Null: never set"`
	ViolatingKeys     int   `json:"violating_keys" doc:"Active keys that do not follow it; the list of keys says which, and why"`
}

// A SCIMToken is one of an identity provider.
type SCIMToken struct {
	ID         string `json:"id" format:"uuid"`
	Name       string `json:"name" example:"okta"`
	Prefix     string `json:"prefix" example:"scim_3fKx" doc:"What the token begins with"`
	State      string `json:"state" enum:"active,expired"`
	CreatedBy  string `json:"created_by" format:"uuid"`
	CreatedAt  Time   `json:"created_at"`
	LastUsedAt *Time  `json:"last_used_at" doc:"To the minute"`
	ExpiresAt  *Time  `json:"expires_at"`
}

// SCIMTokens are the tokens, with the address that the provider calls.
type SCIMTokens struct {
	URL    string      `json:"url" example:"https://whetstone.example.org/scim/v2" doc:"What the provider calls"`
	Tokens []SCIMToken `json:"scim_tokens" nullable:"false"`
}

// A SCIMGroup is a group of an identity provider.
type SCIMGroup struct {
	ID          string  `json:"id" format:"uuid"`
	DisplayName string  `json:"display_name" example:"Engineering"`
	ExternalID  *string `json:"external_id" doc:"The provider's id"`
	Role        *string `json:"role" enum:"viewer,member,admin,owner" doc:"That it gives its members; null: none"`
	Members     int     `json:"members" doc:"How many there are"`
	CreatedAt   Time    `json:"created_at"`
	UpdatedAt   Time    `json:"updated_at"`
}

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
