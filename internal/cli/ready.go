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

// readyCommand is the health check of containers: the image has no curl.
type readyCommand struct {
	config.Config `embed:""`
}

// readyTimeout is shorter than the usual timeout of a health check, 5 seconds.
const readyTimeout = 4 * time.Second

// Run fails unless the process that listens at the address reports ready.
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
