package taskpkg_test

import (
	"context"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/environments/environmentstest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
)

// withTool is a task whose verifier asks a program of the image, and nothing else.
func withTool(manifest, verifier string) files {
	const tool = "RUN printf '#!/bin/sh\\nexit 1\\n' >usr/bin/python3 && chmod 755 usr/bin/python3 && mkdir -p app/bin opt/tool usr/local/bin && cp usr/bin/python3 app/bin/perl\n"
	return files{
		"task.toml":              manifest,
		"environment/Dockerfile": "FROM debian:12\nENV PATH=/app/bin:/usr/local/bin:/usr/bin:/bin\n" + tool + "WORKDIR /app\n",
		"tests/test.sh":          "#!/bin/bash -l\n[ -z \"$PLANTED\" ] && " + verifier + " && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n",
	}
}

// TestVerifierToolsAreTheImages: nothing that an oracle or an agent plants in the image
// is there when the verifier runs, but what it made in the work folders is.
func TestVerifierToolsAreTheImages(t *testing.T) {
	const won = "printf '#!/bin/sh\\nexit 0\\n' >"
	attacks := map[string]struct{ attack, verifier string }{
		"an interpreter":           {won + "/usr/bin/python3", "python3"},
		"one that shadows it":      {won + "/usr/local/bin/python3; chmod 755 /usr/local/bin/python3", "python3"},
		"in a work folder in PATH": {won + "/app/bin/perl", "perl"},
		"shadows it from there":    {won + "/app/bin/python3; chmod 755 /app/bin/python3", "python3"},
		"a library":                {"mkdir -p /usr/lib/python3; touch /usr/lib/python3/sitecustomize.py", "[ -e /usr/lib/python3/sitecustomize.py ]"},
		"the preloaded library":    {"touch /etc/ld.so.preload", "[ -e /etc/ld.so.preload ]"},
		"a profile":                {"echo 'export PLANTED=1' >/root/.profile; mkdir -p /etc/profile.d; echo true >/etc/profile.d/x.sh", "[ -e /etc/profile.d/x.sh ]"},
		"a link":                   {"mkdir /srv; mv /usr/bin /srv/bin; ln -s /srv/bin /usr/bin; printf '#!/srv/bin/sh\\nexit 0\\n' >/srv/bin/python3", "python3"},
		"the work folder as link":  {"mkdir -p /opt/x/bin; " + won + "/opt/x/bin/python3; chmod 755 /opt/x/bin/python3; mv /app /old; ln -s /opt/x /app", "python3"},
		"a tool":                   {won + "/opt/tool/x", "[ -e /opt/tool/x ]"},
	}
	w := newWorld(t)
	w.runner.Environments = environmentstest.New(t)
	for name, a := range attacks {
		t.Run(name, func(t *testing.T) {
			f := withTool("", a.verifier).with(files{"solve.sh": "#!/bin/sh\n" + a.attack + "\ntrue\n"})
			check(t, w.run(t, f, taskpkg.Task{OracleRef: "solve.sh"}), taskpkg.Fail, "")
			agent := func(ctx context.Context, at taskpkg.Workplace) error {
				spec := at.Spec
				spec.Argv = []string{"/bin/sh", "-c", a.attack}
				_, err := w.runner.Sandbox.Run(ctx, spec)
				return err
			}
			check(t, w.run(t, f, taskpkg.Task{Agent: agent}), taskpkg.Fail, "")
		})
	}
	t.Run("carried over", func(t *testing.T) {
		solve := files{"solve.sh": "#!/bin/sh\nmkdir -p /workspace; touch /app/made /workspace/made /opt/tool/x\n"}
		f := withTool("[verifier]\ncarry = ['/opt/tool']\n", "[ -e /app/made ] && [ -e /workspace/made ] && [ -e /opt/tool/x ]").with(solve)
		check(t, w.run(t, f, taskpkg.Task{OracleRef: "solve.sh"}), taskpkg.Pass, "")
	})
}

// TestSkippedRuns: where the RUN lines of a Dockerfile were not carried out, what fails
// for want of them is no fail of the skill.
func TestSkippedRuns(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]struct {
		run, oracle, verifier string
		verdict               taskpkg.Verdict
		code                  taskpkg.Code
	}{
		"the oracle":      {"RUN pip install numpy", "exit 1", "true", taskpkg.Unsupported, taskpkg.NeedsImages},
		"only folders":    {"RUN mkdir -p /x", "exit 1", "true", taskpkg.Fail, taskpkg.OracleFailed},
		"the verifier":    {"RUN apt-get install -y x", "true", "exit 127", taskpkg.Unsupported, taskpkg.NeedsImages},
		"not executable":  {"RUN apt-get install -y x", "true", "exit 126", taskpkg.Unsupported, taskpkg.NeedsImages},
		"a module":        {"RUN pip install numpy", "true", "echo ModuleNotFoundError: numpy >&2; exit 1", taskpkg.Unsupported, taskpkg.NeedsImages},
		"a real fail":     {"RUN pip install numpy", "true", "exit 1", taskpkg.Fail, ""},
		"no RUN line":     {"", "true", "echo ModuleNotFoundError: numpy >&2; exit 1", taskpkg.Fail, ""},
		"a verifier only": {"", "true", "exit 127", taskpkg.Fail, taskpkg.VerifierNotStarted},
	} {
		f := files{
			"environment/Dockerfile": "FROM python:3.12\n" + test.run + "\n",
			"tests/test.sh":          "#!/bin/bash\n" + test.verifier + "\n", "solve.sh": test.oracle + "\n",
		}
		o := w.run(t, f, taskpkg.Task{OracleRef: "solve.sh"})
		check(t, o, test.verdict, test.code)
		if test.code == taskpkg.NeedsImages && !strings.Contains(o.Message, "RUN lines") {
			t.Errorf("%s: %q", name, o.Message)
		}
	}
}
