package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// repohostCommands are the commands `whetstone repohost`. Assigning accounts is for the
// operator: the claim lets an organisation read the account's private repositories with
// the server's own access.
type repohostCommands struct {
	InitRepo repohostInitRepo `cmd:"" help:"Create a bare repository that can be connected to an entry."`
	Allow    repohostAllow    `cmd:"" help:"Assign an account of the code host to an organisation."`
	Release  repohostRelease  `cmd:"" help:"Remove an account of the code host from its organisation."`
	Claims   repohostClaims   `cmd:"" help:"List the accounts of the code host and their organisations."`
	Hook     repohostHook     `cmd:"" hidden:"" help:"Report a push to the server; the hook of a repository runs this."`
}

// repohostInitRepo creates a bare repository on the server's disk, for installations
// without a code host such as GitHub or Gitea.
type repohostInitRepo struct {
	config.Database `embed:""`
	RepohostURL     config.URL `placeholder:"DIR" help:"Folder of the bare repositories; repos in --data when empty."`
	Org             string     `env:"-" help:"Organisation to assign the owner's account to, as with repohost allow."`
	FullName        string     `arg:"" name:"owner/name" help:"Name of the repository."`
}

// Run creates a repository in the server's folder with a post-receive hook that runs
// `whetstone repohost hook`. It creates no data folder: with a mistyped --data the
// repository would end up where no server looks for it.
func (c *repohostInitRepo) Run(ctx context.Context, p *term.Program) error {
	if err := host.CheckFullName(c.FullName); err != nil {
		return fault.Invalid("owner/name", "the name of a repository must be OWNER/NAME")
	}
	if c.Org != "" {
		owner, _, _ := strings.Cut(c.FullName, "/")
		if err := allowAccount(ctx, c.Database, c.Org, owner, false); err != nil {
			return err
		}
	}
	if _, err := os.Stat(c.Data); err != nil && c.RepohostURL == "" {
		return fault.New(fault.NotFound, "There is no folder %s: name the server's folder with --data, or that of the "+
			"repositories with --repohost-url", c.Data)
	}
	dir, err := filepath.Abs(git.Dir(c.Data, string(c.RepohostURL)))
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	path, err := git.Init(dir, c.FullName)
	if err != nil {
		return err
	}
	if err := git.InstallHook(path, program, git.HookConfigPath(dir)); err != nil {
		return err
	}
	out := map[string]string{"full_name": c.FullName, "path": path}
	return p.Print(out, func(w io.Writer) {
		fmt.Fprintf(w, "Created %s\nPush to it with: git push %s HEAD:main\n", c.FullName, path)
	})
}

// repohostHook is run by git, as the post-receive hook that repohostInitRepo installs.
type repohostHook struct {
	Config string `arg:"" help:"File with the address of the server."`
}

// hookTimeout limits how long a git push waits for the server.
const hookTimeout = 10 * time.Second

// Run reads the updated refs that git writes to standard input, in the pushed
// repository as working directory, and sends them to the server as a signed webhook. A
// failure cannot undo the push: reconciling finds it later, and the message says so.
func (c *repohostHook) Run(ctx context.Context, p *term.Program) error {
	lines, err := io.ReadAll(p.Stdin)
	if err != nil {
		return err
	}
	if err := sendHook(ctx, c.Config, string(lines), "whetstone/"+p.Version); err != nil {
		return fmt.Errorf("the push succeeded, but the server was not notified; it will find the push later: %w", err)
	}
	return nil
}

// sendHook sends lines ("OLD NEW REF" each) as a push event. configPath names the file
// that has the server's address and the secret for the signature.
func sendHook(ctx context.Context, configPath, lines, agent string) error {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	settings, err := git.ReadHookConfig(configPath)
	if err != nil {
		return err
	}
	repository, err := os.Getwd()
	if err != nil {
		return err
	}
	push, err := git.HookPush(configPath, repository, lines)
	if err != nil {
		return err
	}
	body, err := json.Marshal(push)
	if err != nil {
		return err
	}
	server := client.New(client.Options{Server: settings.URL, UserAgent: agent})
	return server.SendDelivery(ctx, client.Delivery{
		ID: store.NewID(), Event: string(host.EventPush), Signature: host.Sign(settings.Secret, body), Body: body,
	})
}
