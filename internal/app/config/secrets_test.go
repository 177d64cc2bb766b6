package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/config"
)

// TestSecretValues finds the secrets of all settings that have one, and nothing else of them.
func TestSecretValues(t *testing.T) {
	key := filepath.Join(t.TempDir(), "app-key.pem")
	if err := os.WriteFile(key, []byte("-----BEGIN KEY-----\nbGluZSBvbmU=\nbGluZSB0d28=\n-----END KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Config{
		Database: config.Database{DatabaseURL: "postgres://somebody:of-the-database@database-host/database-name?sslkey=/etc/client.key"},
		BlobURL:  "s3://some-bucket?region=some-region&secret_key=of-the-blobs", SMTPURL: "smtp://mail-user:mail-user@mail-host:25",
		DatabaseReadURL: "postgres://postgres:postgres@database-host/database-name",
		SecretKey:       "new-key,old-key", BootstrapKey: "of-the-start", RepohostPrivateKey: config.Secret(key),
		JudgeKey: "of-the-judge", JudgeModel: "judge-model", ModelKey: config.Secrets{"model-name": "of-the-model", "local": "not-needed"},
		Model:           map[string]config.URL{"model-name": "https://proxy:of%20the%20proxy@model-host/v1"},
		AuditOTLPHeader: config.Secrets{"Authorization": "Bearer of-the-header", "X-Scope-OrgID": "engineering department"},
		Traces:          config.Traces{TraceOTLPHeader: config.Secrets{"x-team": "a1b2c3d4e5f6a7b8", "x-dataset": "measurements-of-all-teams"}},
	}
	got, want := c.SecretValues(), []string{
		"of-the-database", "of-the-blobs", "new-key", "old-key", "of-the-start", "of-the-judge", "of-the-model", "of the proxy",
		"of-the-header", "a1b2c3d4e5f6a7b8", "bGluZSBvbmU=", "bGluZSB0d28=",
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSecretValuesOfEverySetting: a new setting with a secret cannot be forgotten.
func TestSecretValuesOfEverySetting(t *testing.T) {
	var c config.Config
	var want []string
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		secret := fmt.Sprintf("the-secret-%d", len(want))
		switch field := v.Addr().Interface().(type) {
		case *config.Secret:
			if *field = config.Secret(secret); v.Addr().Interface() == &c.RepohostPrivateKey {
				*field = config.Secret("-----BEGIN KEY-----\n" + secret + "\n-----END KEY-----")
			}
		case *config.Secrets:
			*field = config.Secrets{"api-key": config.Secret(secret)}
		case *config.URL:
			*field = config.URL("scheme://user:" + secret + "@host/")
		case *map[string]config.URL:
			*field = map[string]config.URL{"name": config.URL("scheme://user:" + secret + "@host/")}
		default:
			for i := 0; v.Kind() == reflect.Struct && i < v.NumField(); i++ {
				fill(v.Field(i))
			}
			return
		}
		want = append(want, secret)
	}
	fill(reflect.ValueOf(&c).Elem())
	if len(want) < 15 {
		t.Errorf("only %d settings were filled in", len(want))
	}
	got := c.SecretValues()
	for _, secret := range want {
		if !slices.Contains(got, secret) {
			t.Errorf("%s is missing", secret)
		}
	}
}
