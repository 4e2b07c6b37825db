// Package buildversion tells the version of the program that runs.
package buildversion

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime/debug"
	"sync"
)

// release is set by the linker: see the Makefile's build.
var release string

// String is the version of this program: the one stamped by the build, else the one that the go
// command recorded for the module, else "devel-" and the beginning of the program's SHA-256. So two
// builds can be distinguished while a cluster is upgraded, however they were made.
func String() string { return version() }

var version = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(release, info, executablePath)
})

// executablePath is where the program of this process can be read; on Linux also after it was
// replaced by another one.
func executablePath() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

func versionOf(release string, info *debug.BuildInfo, executable func() (string, error)) string {
	switch {
	case release != "":
		return release
	case info != nil && info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	path, err := executable()
	if err != nil {
		return "devel"
	}
	sum, err := sumOf(path)
	if err != nil {
		return "devel"
	}
	return "devel-" + sum[:12]
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
