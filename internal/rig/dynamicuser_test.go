package rig

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// dynamicUser is one of the users that systemd makes for DynamicUser=yes: it has a
// number, and neither a name, a group, a home nor anything else.
const dynamicUser = 61184 + 815

// confine stands in the place of slotferry: it runs it as the units do with
// DynamicUser, CapabilityBoundingSet=, NoNewPrivileges and ProtectSystem=strict. The
// file system is read-only but for the state directories. The umask is the widest
// there is.
const confine = `#!/bin/sh
set -e
if [ -z "$CONFINED" ]; then
	CONFINED=1 exec unshare --mount --propagation private "$0" "$@"
fi
for dir in %[1]s/a-state %[1]s/b-state; do
	mount --bind "$dir" "$dir"
done
mount -o remount,bind,ro "$(stat -c %%m %[1]s)"
mount -o remount,bind,ro /
umask 000
exec setpriv --reuid=%[2]d --regid=%[2]d --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all \
	env -i HOME=/ PATH=/usr/bin:/bin sh -c 'if (: > %[1]s/a-state/../probe) 2>/dev/null; then echo "the file system can be written to" >&2; exit 70; fi; exec "$0" "$@"' \
	%[3]s "$@"
`

// What a unit with DynamicUser may do is enough: relay and helper, and solo, run as
// a user without a name, without capabilities, on a file system that is read-only but
// for the state directory. There every file is that user's alone, whatever the umask.
func TestRunsAsADynamicUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("NOT RUN: only root can become another user and mount")
	}
	for _, tool := range []string{"setpriv", "unshare", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT RUN: %v (hint: install util-linux)", err)
		}
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: no mount namespace can be made here: %v %s", err, out)
	}
	for _, mode := range []Mode{Inline, Solo} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			clustertest.NewestMajor(t, func(t *testing.T, major int) { runAsADynamicUser(t, major, mode) })
		})
	}
}

func runAsADynamicUser(t *testing.T, major int, mode Mode) {
	dir, binary := t.TempDir(), build(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Dir(binary), filepath.Dir(dir), dir} { // temporary directories are root's alone
		must(os.Chmod(path, 0o755))
	}
	for _, node := range []string{"a", "b"} {
		state := filepath.Join(dir, node+"-state")
		must(os.Mkdir(state, 0o700))
		must(os.Chown(state, dynamicUser, dynamicUser))
	}
	confined := filepath.Join(dir, "slotferry")
	must(os.WriteFile(confined, fmt.Appendf(nil, confine, dir, dynamicUser, binary), 0o755))
	p := newTestPairOf(t, major, Config{Mode: mode, Binary: confined, Dir: dir, Flags: []string{"--advance-interval", "1s"}})
	p.waitAnchor(p.B)
	p.createSlot(p.A, "s")
	p.waitReady(p.B, "s")
	for _, proc := range []*Process{p.B.Helper, p.A.Relay} {
		if proc != nil {
			isConfined(t, proc)
		}
	}
	must(p.B.Helper.Kill9())
	must(p.B.Helper.Start(t.Context())) // it finds its ledger
	p.waitReady(p.B, "s")
	p.insert(p.A, 1, 10)
	p.waitReplay(p.A, p.B)
	must(p.A.Server.Kill9())
	p.promote(p.B)
	wantRows(t, p.rows(p.B, "s"), 1, 10)
	names := ownFiles(t, filepath.Join(dir, "b-state"))
	if !strings.Contains(names, "ledger.json") || !strings.Contains(names, "promotion.json") {
		t.Errorf("the state directory has %s", names)
	}
}

// isConfined checks what the kernel says of a process.
func isConfined(t *testing.T, p *Process) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(status)), " ")
	for _, want := range []string{
		fmt.Sprintf("Uid: %[1]d %[1]d %[1]d %[1]d Gid: %[1]d %[1]d %[1]d %[1]d", dynamicUser), "Groups: NStgid", "Umask: 0000",
		"CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 CapAmb: 0000000000000000", "NoNewPrivs: 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: %q is not in its status:\n%s", p.name, want, status)
		}
	}
}

// ownFiles checks that a state directory and all in it are the user's alone, and
// returns the names.
func ownFiles(t *testing.T, dir string) (names string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		names += " " + d.Name()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; info.Mode().Perm() != want || owner != dynamicUser {
			t.Errorf("%s: mode %v of user %d, want %v of %d", path, info.Mode().Perm(), owner, want, dynamicUser)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
