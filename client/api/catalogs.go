package api

// A CatalogToken opens the catalogs of an organisation to agents.
type CatalogToken struct {
	ID         string `json:"id" format:"uuid"`
	Name       string `json:"name" example:"laptops"`
	Prefix     string `json:"prefix" example:"ct_3fKx" doc:"What the token begins with"`
	State      string `json:"state" enum:"active,replaced,expired" doc:"A replaced token works until it expires"`
	CreatedBy  string `json:"created_by" format:"uuid"`
	CreatedAt  Time   `json:"created_at"`
	LastUsedAt *Time  `json:"last_used_at" doc:"To the minute"`
	ExpiresAt  *Time  `json:"expires_at"`
	ReplacedAt *Time  `json:"replaced_at"`
}
