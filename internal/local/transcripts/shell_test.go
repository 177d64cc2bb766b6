package transcripts_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/local/transcripts"
)

const (
	passes  = "passed"
	fails   = "failed"
	unknown = ""
)

func verdict(passed *bool) string {
	switch {
	case passed == nil:
		return unknown
	case *passed:
		return passes
	}
	return fails
}

// TestTestsPassed: what the exit status says about tests, or that it says nothing.
func TestTestsPassed(t *testing.T) {
	for line, want := range map[string][2]string{ // with status 0 and 1
		"go test ./...": {passes, fails},
		"/usr/local/go/bin/go test -race -run X .":            {passes, fails},
		"go -C sub test ./...":                                {passes, fails},
		"cargo test":                                          {passes, fails},
		"cargo +nightly test --all":                           {passes, fails},
		"cargo nextest run":                                   {passes, fails},
		"pytest -q tests/test_a.py::test_b":                   {passes, fails},
		"python3 -m pytest":                                   {passes, fails},
		"python -m unittest discover":                         {passes, fails},
		"python manage.py test":                               {passes, fails},
		"uv run --extra dev pytest":                           {passes, fails},
		"poetry run pytest":                                   {passes, fails},
		"npm test":                                            {passes, fails},
		"npm --prefix web test -- --watch=false":              {passes, fails},
		"npm run test:unit":                                   {passes, fails},
		"pnpm --filter web test":                              {passes, fails},
		"pnpm exec vitest run":                                {passes, fails},
		"yarn test":                                           {passes, fails},
		"npx --yes jest":                                      {passes, fails},
		"./node_modules/.bin/vitest run":                      {passes, fails},
		"node --test":                                         {passes, fails},
		"mvn -q -B test":                                      {passes, fails},
		"./mvnw verify":                                       {passes, fails},
		"./gradlew :app:testDebugUnitTest":                    {passes, fails},
		"gradle check":                                        {passes, fails},
		"dotnet test --no-build":                              {passes, fails},
		"bundle exec rspec":                                   {passes, fails},
		"vendor/bin/phpunit":                                  {passes, fails},
		"make -j4 test":                                       {passes, fails},
		"make check":                                          {passes, fails},
		"make -C build test-unit":                             {passes, fails},
		"ctest --test-dir build":                              {passes, fails},
		"CI=true GOFLAGS='-mod=mod' go test ./...":            {passes, fails},
		"env -u HOME CI=1 timeout -k 5 60 npm test":           {passes, fails},
		"time go test ./... 2>&1":                             {passes, fails},
		"go test ./... > /tmp/out 2>&1":                       {passes, fails},
		"go test ./... &> out":                                {passes, fails},
		"cd x && go test ./...":                               {passes, fails},
		"cd x; go test ./...":                                 {passes, fails},
		"cd x\ngo test ./...":                                 {passes, fails},
		"cd x &&\n  go test ./...":                            {passes, fails},
		"export A=1 && cd 'my dir' && make test":              {passes, fails},
		"source .venv/bin/activate && pytest":                 {passes, fails},
		"# run them\ngo test ./...":                           {passes, fails},
		"go test ./a && go test ./b":                          {passes, fails},
		"go test ./... && echo ok":                            {passes, fails},
		"set -e; go build ./...; go test ./...":               {passes, unknown},
		"set -euo pipefail; go test ./... | tail":             {passes, fails},
		"set -o pipefail && go test ./... | tee x":            {passes, fails},
		"set -o pipefail; go test . | grep ok":                {passes, unknown},
		"go test $(go list ./... | grep -v \"a b\")":          {passes, fails},
		"go build ./...; go test ./...":                       {passes, fails},
		"yes | npm test":                                      {passes, unknown},
		"cat > a_test.go <<'E'\nfor it's (\nE\ngo test ./...": {passes, fails},
		"go test . && git commit -m \"$(cat <<'EOF'\nIt's done (really)\nEOF\n)\"": {passes, unknown},

		// What else may have failed.
		"go vet ./... && go test ./...": {passes, unknown},
		"go test ./... && git push":     {passes, unknown},
		// The status is that of something else.
		"go test ./... | tail -20":          {unknown, unknown},
		"go test ./... 2>&1 | grep FAIL":    {unknown, unknown},
		"go test ./... || true":             {unknown, unknown},
		"go test ./... || exit 1":           {unknown, unknown},
		"go test ./...; echo $?":            {unknown, unknown},
		"go test ./...; echo \"exit: $?\"":  {unknown, unknown},
		"go test ./... &":                   {unknown, unknown},
		"go test ./a; go test ./b":          {unknown, fails},
		"go test ./... & wait":              {unknown, unknown},
		"! go test ./...":                   {unknown, unknown},
		"if go test ./...; then echo; fi":   {unknown, unknown},
		"for d in a b; do go test $d; done": {unknown, unknown},
		"(cd x && go test ./...)":           {unknown, unknown},
		"while go test; do :; done":         {unknown, unknown},
		"go test \"./...":                   {unknown, unknown},
		"go test ./... <<EOF\nno end":       {unknown, unknown},
		"diff <(go test ./...) want":        {unknown, unknown},
		"docker run x go test":              {unknown, unknown},
		// Nothing is tested.
		"":                               {unknown, unknown},
		"   ":                            {unknown, unknown},
		"echo go test ./...":             {unknown, unknown},
		"echo 'go test ./...'":           {unknown, unknown},
		"grep -r 'npm test' .":           {unknown, unknown},
		"git commit -m 'go test passes'": {unknown, unknown},
		"cat pytest.ini":                 {unknown, unknown},
		"go build ./... # go test ./...": {unknown, unknown},
		"go vet ./...":                   {unknown, unknown},
		"go test -c ./x":                 {unknown, unknown},
		"go test -list . ./x":            {unknown, unknown},
		"cargo test --no-run":            {unknown, unknown},
		"pytest --collect-only":          {unknown, unknown},
		"make -n test":                   {unknown, unknown},
		"mvn test -DskipTests":           {unknown, unknown},
		"gradle build -x test":           {unknown, unknown},
		"npm run build":                  {unknown, unknown},
		"npm install":                    {unknown, unknown},
		"make latest":                    {unknown, unknown},
		"make":                           {unknown, unknown},
		"test -f x":                      {unknown, unknown},
		"timeout":                        {unknown, unknown},
		"A=1":                            {unknown, unknown},
		"> out":                          {unknown, unknown},
		"&&":                             {unknown, unknown},
		"|":                              {unknown, unknown},
	} {
		for status := range 2 {
			if got := verdict(transcripts.TestsPassed(line, status, "")); got != want[status] {
				t.Errorf("%q with status %d: %q, want %q", line, status, got, want[status])
			}
		}
	}
}

// TestStatus: some statuses are not those of tests.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		line   string
		status int
		output string
		want   string
	}{
		{"cargo test", 101, "", fails},
		{"make test", 2, "", fails},
		{"timeout 60 go test ./...", 124, "", unknown},
		{"go test ./...", 126, "", unknown},
		{"go test ./...", 127, "bash: go: command not found", unknown},
		{"go test ./...", 130, "", unknown},
		{"go test ./...", 137, "", unknown},
		{"npm test", 255, "", fails},
		{"go test ./...", -1, "", unknown},
		{"cd x && go test ./...", 1, "/bin/bash: line 1: cd: x: No such file or directory", unknown},
		{"source venv/bin/activate && pytest", 1, "bash: venv/bin/activate: No such file or directory", unknown},
		{"go test ./...", 1, "open x: No such file or directory", fails},
		{"pytest", 2, "", fails}, // a test cannot be imported
		{"pytest", 4, "", unknown},
		{"python -m pytest x", 5, "", unknown},
	} {
		if got := verdict(transcripts.TestsPassed(c.line, c.status, c.output)); got != c.want {
			t.Errorf("%q with status %d: %q, want %q", c.line, c.status, got, c.want)
		}
	}
}

func TestShellCommits(t *testing.T) {
	for line, want := range map[string]bool{
		"git commit -m x":                      true,
		"cd a && git add . && git commit -qam": true,
		"git -C dir -c a=b commit":             true,
		"GIT_AUTHOR_NAME=a git commit":         true,
		"(git commit -m x)":                    true, // not understood, but likely
		"git log":                              false,
		"git log --grep commit":                false,
		"echo git commit":                      false,
		"git commit-tree x":                    false,
		"":                                     false,
	} {
		if got := transcripts.Commits(line); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
	if line := transcripts.Quote([]string{"go", "test", "it's"}); verdict(transcripts.TestsPassed(line, 0, "")) != passes {
		t.Errorf("%s runs no tests", line)
	}
}

func FuzzTestsPassed(f *testing.F) {
	for _, line := range []string{"go test ./... | tail", "a && b || c; d & e\n<<E\nE", "\"$(`x`)\"", "$(", "\\", "<<<x", "2>&1 >x <y", "'"} {
		f.Add(line, 1)
	}
	f.Fuzz(func(t *testing.T, line string, status int) {
		passed := transcripts.TestsPassed(line, status, "")
		if passed != nil && *passed != (status == 0) {
			t.Errorf("%q with status %d: %v", line, status, *passed)
		}
		transcripts.Commits(line)
	})
}
