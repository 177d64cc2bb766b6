package teams

// The parser of CODEOWNERS files.
var (
	MatchOwners     = matchOwners
	OwnerAddress    = ownerAddress
	OwnerTeam       = ownerTeam
	ParseCodeowners = parseCodeowners
)

// MaxCodeowners is how long a file may be, in bytes.
const MaxCodeowners = maxCodeowners
