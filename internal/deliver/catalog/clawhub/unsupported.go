package clawhub

import (
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// mountUnsupported answers the commands of the CLI that have no meaning here with
// what to do instead: it prints the text of an answer as it is. Without it they
// would show a plain 404, which reads like a broken registry.
func (s *Service) mountUnsupported(a *httpapi.API) {
	const (
		noStars     = "This registry has no stars"
		noDelete    = "This registry keeps skills; withdraw a version with `whetstone withdraw SKILL VERSION`"
		noRestore   = "Restore a withdrawn version with `whetstone withdraw SKILL VERSION --undo`"
		noRename    = "This registry does not rename, merge or transfer skills; publish the skill again"
		noScan      = "This registry scans nothing on demand; `clawhub skill verify` shows the checks of a version"
		noPublisher = "A publisher is an organisation here; the operator makes them with `whetstone org create`"
		noPackages  = "This registry has skills only, no packages or plugins"
		noVerdicts  = "This registry gives no verdicts in bulk; ask for .../verify of each skill"
	)
	// More specific patterns of Mount win over the wildcards here.
	for _, base := range catalog.Bases() {
		for _, r := range []struct{ pattern, message string }{
			{"POST %s/api/v1/stars/{slug}", noStars},
			{"DELETE %s/api/v1/stars/{slug}", noStars},
			{"DELETE %s/api/v1/skills/{slug}", noDelete},
			{"DELETE %s/api/v1/skills/{slug}/versions/{version}", noDelete},
			{"POST %s/api/v1/skills/{slug}/undelete", noRestore},
			{"POST %s/api/v1/skills/{slug}/versions/{version}/restore", noRestore},
			{"POST %s/api/v1/skills/{slug}/{change}", noRename}, // rename, merge, transfer
			{"POST %s/api/v1/skills/{slug}/transfer/{change}", noRename},
			{"GET %s/api/v1/transfers/{which}", noRename},
			{"POST %s/api/v1/skills/-/scan", noScan},
			{"GET %s/api/v1/skills/-/scan/{path...}", noScan},
			{"POST %s/api/v1/skills/-/security-verdicts", noVerdicts},
			{"POST %s/api/v1/publishers", noPublisher},
			{"GET %s/api/v1/packages", noPackages},
			{"GET %s/api/v1/packages/{path...}", noPackages},
			{"POST %s/api/v1/packages", noPackages},
			{"POST %s/api/v1/packages/{path...}", noPackages},
			{"DELETE %s/api/v1/packages/{path...}", noPackages},
		} {
			method, path, _ := strings.Cut(r.pattern, "%s")
			a.Handle(method+base+path, catalog.Limit(), s.handler(func(http.ResponseWriter, *http.Request, visit) error {
				return fault.New(fault.NotFound, "%s", r.message)
			}))
		}
	}
}
