package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/config"
)

// readyCommand is for the health checks of containers, which have no other
// program to ask with.
type readyCommand struct {
	config.Config `embed:""`
}

// readyPatience is less than a health check usually waits.
const readyPatience = 4 * time.Second

// Run fails unless the process that listens at the address can work.
func (c *readyCommand) Run(ctx context.Context, p *Program) error {
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return c.Check()
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	if err := client.New(client.Options{Server: "http://" + net.JoinHostPort(host, port)}).Ready(ctx); err != nil {
		return err
	}
	return p.print(map[string]string{"status": "ready"}, func(w io.Writer) { fmt.Fprintln(w, "ready") })
}
