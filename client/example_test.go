package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/whetstone-dev/whetstone/client"
)

func Example() {
	ctx := context.Background()
	c := client.New(client.Options{Server: "https://whetstone.example", APIKey: os.Getenv("WHETSTONE_API_KEY")})
	entry, err := c.EntryByName(ctx, "pdf-tables")
	if err != nil {
		log.Fatal(err)
	}
	archive, err := c.DownloadVersion(ctx, entry.ID, entry.CurrentVersion.Version,
		client.Wanted{ContentHash: entry.CurrentVersion.ContentHash})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s has %d bytes\n", entry.CurrentVersion.Version, len(archive))
}
