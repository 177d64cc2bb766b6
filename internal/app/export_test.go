package app

import "github.com/whetstone-dev/whetstone/internal/httpapi"

// Routes lists the typed routes that the service answers.
func (a *App) Routes() []httpapi.Route { return a.parts.api.Routes() }
