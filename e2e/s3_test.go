package e2e_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
)

// TestScriptsOnS3 runs what stores and downloads archives with a real S3
// server in the place of the files.
func TestScriptsOnS3(t *testing.T) {
	requireCurl(t)
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Files: []string{scripts + "/registry_life.txtar"},
		Setup: func(env *testscript.Env) error {
			bucket := blobtest.S3(env.T().(testing.TB)) // which puts its keys into our environment
			if err := setUp(env, "sqlite"); err != nil {
				return err
			}
			env.Setenv("WHETSTONE_BLOB_URL", bucket.URL)
			return nil
		},
		Cmds:               commands,
		RequireUniqueNames: true,
	})
}
