package client_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
)

func TestAudit(t *testing.T) {
	c := startService(t).client()
	ctx := t.Context()
	const made = 205 // more than one answer has
	for range made {
		if _, err := c.BindInstallation(ctx, api.NewRepoInstallation{InstallationID: 7, AccountLogin: "acme", AccountType: "User"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []struct {
		filter client.AuditFilter
		want   int
	}{
		{client.AuditFilter{Action: "repohost."}, made},
		{client.AuditFilter{Action: "repohost.", Limit: 203}, 203},
		{client.AuditFilter{Limit: 2}, 2},
		{client.AuditFilter{Actor: "key"}, made},
		{client.AuditFilter{Actor: "command"}, 3},
		{client.AuditFilter{Target: "default"}, 1},
		{client.AuditFilter{Until: "2020-01-01"}, 0},
	} {
		got, err := c.Audit(ctx, f.filter)
		if err != nil || len(got) != f.want {
			t.Errorf("%+v: %d entries, %v; want %d", f.filter, len(got), err, f.want)
		}
	}
	_, err := c.Audit(ctx, client.AuditFilter{Since: "soon"})
	wantStatus(t, err, 400, "since")
}
