package installations

import (
	"context"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// forwardOnly are the clients that compare versions by precedence and never
// install a lower one, so that a rollback does not reach them: the ClawHub CLI
// ("clawdhub" in its early releases) calls itself up to date whenever its version
// is not below the latest. OpenClaw's own updater installs whatever is latest.
var forwardOnly = []string{"clawhub", "clawdhub"}

// maxClient is how many characters of a client's name are kept.
const maxClient = 100

// clientName is the name of a client without its version: "clawhub" for
// "ClawHub/0.23.3 (linux)".
func clientName(client string) string {
	name, _, _ := strings.Cut(strings.TrimSpace(client), "/")
	name, _, _ = strings.Cut(name, " ")
	return strings.ToLower(name)
}

// ForwardOnly implements release.Clients.
func (s *Service) ForwardOnly(ctx context.Context, q store.Querier, entryID string) (bool, error) {
	clients, err := clientsOf(ctx, q, entryID)
	return slices.ContainsFunc(clients, func(c string) bool { return slices.Contains(forwardOnly, c) }), err
}
