package main

import (
	"os"
	"os/exec"
	"testing"
)

// needTool returns the path of a program that a test cannot do without. Where
// SLOTFERRY_REQUIRE_TOOLS is set, as in CI, that it is missing is a failure and not
// a skip.
func needTool(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("SLOTFERRY_REQUIRE_TOOLS") != "":
		t.Fatalf("%v: install %s", err, debianPackage)
	default:
		t.Skipf("%v: install %s for this test", err, debianPackage)
	}
	return path
}
