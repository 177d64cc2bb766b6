package api

// An Entry is a skill, agent, command, hook or bundle in the registry. Its name is
// unique within its organisation.
type Entry struct {
	ID          string  `json:"id" format:"uuid"`
	Name        string  `json:"name" example:"pdf-tables"`
	EntryType   string  `json:"entry_type" enum:"skill,agent,command,hook,bundle"`
	Description string  `json:"description"`
	Visibility  string  `json:"visibility" enum:"public,org,unlisted"`
	SourceRepo  *string `json:"source_repo"`
	SkillID     *string `json:"skill_id" doc:"The skill whose performance this entry has"`
	CreatedAt   Time    `json:"created_at"`
	UpdatedAt   Time    `json:"updated_at"`
}

// An OwnedEntry is an entry with the name of the organisation that owns it.
type OwnedEntry struct {
	Entry
	Organisation string `json:"organisation" doc:"Name of the organisation that owns it" example:"acme"`
}

// A ListedEntry is an entry in a list, with the quality of its current version.
type ListedEntry struct {
	OwnedEntry
	CurrentVersion    *CurrentVersion `json:"current_version" doc:"null while no version is current: the first is a candidate, or all are withdrawn"`
	PassRate          *float64        `json:"pass_rate" doc:"null for other organisations"`
	EvalCount         int64           `json:"eval_count" doc:"Graded sessions of the current version; 0 for other organisations"`
	InstallationCount int             `json:"installation_count" doc:"People who installed it; 0 for other organisations"`
}

// CurrentVersion names the version that installations get.
type CurrentVersion struct {
	ID          string `json:"id" format:"uuid"`
	Version     string `json:"version" example:"1.2.0"`
	ContentHash string `json:"content_hash"`
}

// A Version is one archive of an entry. It is immutable.
type Version struct {
	ID                   string      `json:"id" format:"uuid"`
	Version              string      `json:"version" example:"1.2.0"`
	ContentHash          string      `json:"content_hash" doc:"SHA-256 of the archive"`
	ChangeSummary        *string     `json:"change_summary"`
	FileManifest         []File      `json:"file_manifest" nullable:"false"`
	Source               string      `json:"source" enum:"cli,repohost,repohost-direct"`
	SourceRef            *string     `json:"source_ref"`
	SourceRepo           *string     `json:"source_repo"`
	IsCurrent            bool        `json:"is_current"`
	RolledBack           bool        `json:"rolled_back"`
	State                string      `json:"state" enum:"candidate,published,withdrawn" doc:"A candidate waits for its gate; a withdrawn version must not become current"`
	WithdrawnReason      *string     `json:"withdrawn_reason" doc:"Why it was withdrawn; null unless it is"`
	GateID               *string     `json:"gate_id" format:"uuid" doc:"Its newest gate; null without one, and for other organisations"`
	PushedAt             Time        `json:"pushed_at"`
	PushedBy             *string     `json:"pushed_by" format:"uuid" doc:"null for other organisations, like the aggregates"`
	Size                 int64       `json:"size"`
	AggregatePassRate    *float64    `json:"aggregate_pass_rate"`
	PassRateBasis        *string     `json:"aggregate_pass_rate_basis" enum:"judge,person,outcome,pushed,mixed" doc:"What the grades rest on; null without any"`
	AggregateSessions    int64       `json:"aggregate_sessions" doc:"0 for other organisations"`
	AggregateTriggerRate *float64    `json:"aggregate_trigger_rate"`
	BasisCounts          BasisCounts `json:"version_basis_counts" doc:"Uses by the reason why they count for this version; 0 for other organisations"`
	Cost                 *Cost       `json:"cost" doc:"Of its model requests over all time; null without any, and for other organisations"`
}

// BasisCounts are uses of a version by how it is known that they are of it.
type BasisCounts struct {
	Hash         int64 `json:"hash" doc:"The record named the content hash"`
	Plugin       int64 `json:"plugin" doc:"The agent named the version that it loaded"`
	Installation int64 `json:"installation" doc:"The person had it installed"`
	Time         int64 `json:"time" doc:"It was the current version at that time"`
}

// A Rollback records that another version was made current.
type Rollback struct {
	FromVersion      string  `json:"from_version"`
	ToVersion        string  `json:"to_version"`
	PublishedVersion *string `json:"published_version" doc:"The version that was published with the content of to_version; null unless it was rolled forward"`
	Reason           *string `json:"reason" doc:"null for other organisations, like rolled_back_by"`
	RolledBackBy     *string `json:"rolled_back_by" format:"uuid"`
	RolledBackAt     Time    `json:"rolled_back_at"`
	UndoneAt         *Time   `json:"undone_at" doc:"null while the rollback stands"`
}

// EntryDetail is an entry with its history. The server streams it: an entry may have
// thousands of versions.
type EntryDetail struct {
	Entry             OwnedEntry `json:"entry"`
	InstallationCount int        `json:"installation_count" doc:"People who installed it; 0 for other organisations"`
	Owners            *Owners    `json:"owners" doc:"Who owns it; null for other organisations"`
	Rollbacks         []Rollback `json:"rollbacks" nullable:"false" doc:"Newest first; at most 1,000"`
	Versions          []Version  `json:"versions" nullable:"false"`
}

// Released is an entry after the state of one of its versions has changed.
type Released struct {
	Entry   Entry   `json:"entry"`
	Version Version `json:"version"`
}

// RollbackResult is an entry after a rollback, with the version that is current now.
type RollbackResult struct {
	Entry          Entry   `json:"entry"`
	Version        Version `json:"version"`
	RolledBackFrom string  `json:"rolled_back_from"`
	Reason         *string `json:"reason"`
}

// Choices are the versions that an entry can be rolled back to.
type Choices struct {
	Current            *Choice   `json:"current" doc:"null while no version is current"`
	Targets            []Choice  `json:"targets" nullable:"false" doc:"Published versions that are not current, newest push first; at most 100"`
	DefaultTarget      *string   `json:"default_target" doc:"What a rollback without target_version makes current; null: it would be refused"`
	Undo               *Undoable `json:"undo" doc:"The rollback that can be undone; null if there is none"`
	ForwardOnlyClients bool      `json:"forward_only_clients" doc:"The entry is installed by clients that never go down to a lower version: only roll_forward reaches them"`
}

// A Choice is a version and how it did: what speaks for or against it.
type Choice struct {
	Version          string      `json:"version" example:"1.2.0"`
	State            string      `json:"state" enum:"candidate,published,withdrawn"`
	RolledBack       bool        `json:"rolled_back"`
	PassRate         *float64    `json:"pass_rate"`
	PassRateInterval *[2]float64 `json:"pass_rate_interval" doc:"Wilson, 95 %"`
	PassRateBasis    *string     `json:"pass_rate_basis" enum:"judge,person,outcome,pushed,mixed"`
	GradedSessions   int64       `json:"graded_sessions" doc:"That the pass rate is the mean of"`
	Sessions         int64       `json:"sessions"`
	Cost             *Cost       `json:"cost" doc:"null without a model request"`
	PushedAt         Time        `json:"pushed_at"`
	CurrentSince     *Time       `json:"current_since" doc:"When it was current last; null if it never was"`
	CurrentUntil     *Time       `json:"current_until" doc:"null while it is current"`
}

// Undoable is a rollback that can be undone.
type Undoable struct {
	FromVersion  string `json:"from_version" doc:"Would be current again"`
	ToVersion    string `json:"to_version"`
	RolledBackAt Time   `json:"rolled_back_at"`
}

// A File is one regular file of an archive.
type File struct {
	Path string `json:"path"`
	Hash string `json:"hash"` // SHA-256 of the content
	Size int64  `json:"size"`
}
