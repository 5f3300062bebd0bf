package deploy

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/leaderbridge/leaderbridge/test/testenv/toolenv"
)

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(shipped("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// buildFlags are what decides on the bytes of a release.
type buildFlags struct{ cgo, flags, ldflags string }

var (
	goBuild = regexp.MustCompile(`(?s)(CGO_ENABLED=\d).*?go build (.*?)-ldflags "(.*?)"`)
	setting = regexp.MustCompile(`(buildinfo\.version)=\S+`)
	gaps    = regexp.MustCompile(`[\s\\]+`)
)

func flagsIn(t *testing.T, name string) buildFlags {
	t.Helper()
	s := text(t, name)
	if i := strings.Index(s, "\nstatic:"); i >= 0 {
		s = s[i:]
	}
	m := goBuild.FindStringSubmatch(s)
	if m == nil {
		t.Fatalf("%s builds nothing", name)
	}
	return buildFlags{m[1], strings.TrimSpace(gaps.ReplaceAllString(m[2], " ")), setting.ReplaceAllString(m[3], "$1=")}
}

// goreleaser is the part of .goreleaser.yaml that is looked at here.
type goreleaser struct {
	Version int `json:"version"`
	Builds  []struct {
		Main         string   `json:"main"`
		Env          []string `json:"env"`
		Flags        []string `json:"flags"`
		LDFlags      []string `json:"ldflags"`
		ModTimestamp string   `json:"mod_timestamp"`
	} `json:"builds"`
	Archives []struct {
		Files []string `json:"files"`
	} `json:"archives"`
	Checksum struct {
		Algorithm string `json:"algorithm"`
	} `json:"checksum"`
	SBOMs []struct {
		Artifacts string `json:"artifacts"`
	} `json:"sboms"`
}

// The image, the archives and "make static" hold the same binary: it is static,
// it knows its version, and nothing of the machine that built it is in it.
func TestOneWayToBuildARelease(t *testing.T) {
	var release goreleaser
	if err := yaml.Unmarshal([]byte(text(t, ".goreleaser.yaml")), &release); err != nil {
		t.Fatal(err)
	}
	if release.Version != 2 || len(release.Builds) != 1 || len(release.Archives) != 1 {
		t.Fatalf(".goreleaser.yaml is of version %d, with %d builds and %d archives", release.Version, len(release.Builds), len(release.Archives))
	}
	b := release.Builds[0]
	want := buildFlags{strings.Join(b.Env, " "), strings.Join(b.Flags, " "), setting.ReplaceAllString(strings.Replace(strings.Join(b.LDFlags, " "), "{{ .Tag }}", "v", 1), "$1=")}
	if b.Main != "./cmd/leaderbridge" || want.cgo != "CGO_ENABLED=0" || !slices.Contains(b.Flags, "-trimpath") || !strings.Contains(want.ldflags, "internal/buildinfo.version=") {
		t.Errorf(".goreleaser.yaml builds %s with %+v", b.Main, want)
	}
	if b.ModTimestamp != "{{ .CommitTimestamp }}" {
		t.Errorf("the archives' times are %q, another one for each build", b.ModTimestamp)
	}
	for _, name := range []string{"Dockerfile", "Makefile"} {
		if have := flagsIn(t, name); have != want {
			t.Errorf("%s builds with %+v, .goreleaser.yaml with %+v", name, have, want)
		}
	}
	if release.Checksum.Algorithm != "sha256" || len(release.SBOMs) == 0 || release.SBOMs[0].Artifacts != "archive" {
		t.Errorf("checksums are %q, lists of contents are made of %+v", release.Checksum.Algorithm, release.SBOMs)
	}
	for _, file := range release.Archives[0].Files {
		if file, _, _ = strings.Cut(file, "/**"); file == "" {
			continue
		}
		if _, err := os.Stat(shipped("..", file)); err != nil {
			t.Errorf("the archives would hold %s: %v", file, err)
		}
	}
}

// goreleaser itself knows every key of the release's configuration.
func TestReleaseConfiguration(t *testing.T) {
	if out, err := exec.Command(toolenv.ReleaseCheck.Path(t), shipped("..", ".goreleaser.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The image holds next to nothing, and is run by nobody.
func TestDockerfile(t *testing.T) {
	s := text(t, "Dockerfile")
	final := s[strings.LastIndex(s, "\nFROM ")+1:]
	if !strings.HasPrefix(final, "FROM scratch\n") {
		t.Errorf("the image is built on %s", strings.SplitN(final, "\n", 2)[0])
	}
	if !strings.Contains(final, "\nUSER 65532:65532\n") {
		t.Error("the image does not name a user by number: Kubernetes cannot tell that it is not root")
	}
	if !strings.Contains(final, "\nENTRYPOINT [\"/leaderbridge\"]\n") {
		t.Error("the image does not start the command itself: there is no shell to do it")
	}
	if n := strings.Count(final, "\nCOPY "); n != 2 || strings.Contains(final, "\nRUN ") {
		t.Errorf("the image holds %d things, want the certificates and the binary", n)
	}
	if m := regexp.MustCompile(`(?m)^ARG GO_VERSION=\d+\.\d+\.\d+$`).FindString(s); m == "" || strings.Contains(s, ":latest") {
		t.Error("the Dockerfile names no release of Go")
	}
}
