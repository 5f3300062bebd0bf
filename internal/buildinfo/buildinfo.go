// Package buildinfo tells which build this is.
package buildinfo

import (
	"regexp"
	"runtime/debug"
	"strings"
)

// version is set by a release build: -ldflags "-X <this package>.version=v1.2.3".
var version string

// Version is the release's version, or else what the Go toolchain recorded:
// the module's version, or the commit that was built. It is "devel" when
// nothing is known.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return fromBuildInfo(info)
}

func fromBuildInfo(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	parts := []string{"devel"}
	if rev := settings["vcs.revision"]; rev != "" {
		parts = append(parts, rev[:min(12, len(rev))])
		if settings["vcs.modified"] == "true" {
			parts = append(parts, "modified")
		}
	}
	return strings.Join(parts, "-")
}

// SemVer is Version where that is a semantic version, and one that sorts
// before every release else: the NATS services framework takes no other.
func SemVer() string {
	if v := strings.TrimPrefix(Version(), "v"); semver.MatchString(v) {
		return v
	}
	return "0.0.0-devel"
}

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
