package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// readyCommand is the health check of containers: the image has no curl. It embeds all
// settings, so that it reads --addr from the same environment and file as the server.
type readyCommand struct {
	config.Config `embed:""`
}

// readyTimeout is below the usual timeout of a health check, 5 seconds, so that the
// container's log shows this command's message and not just a kill.
const readyTimeout = 4 * time.Second

// Run asks the process that listens at --addr whether it is ready (GET /readyz), and
// fails unless it is. An unspecified address, e.g. ":8080" or "0.0.0.0:8080", means
// localhost.
func (c *readyCommand) Run(ctx context.Context, p *term.Program) error {
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return c.Check()
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := client.New(client.Options{Server: "http://" + net.JoinHostPort(host, port)}).Ready(ctx); err != nil {
		return err
	}
	return p.Print(map[string]string{"status": "ready"}, func(w io.Writer) { fmt.Fprintln(w, "ready") })
}
