package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// owner is the operating system user that servers run as and that owns their
// files.
type owner struct {
	uid, gid int
	other    bool // not the user of this process, which is root then
}

// nobodyID is nobody's user and group on most systems, for those without a
// passwd file.
const nobodyID = 65534

// serverOwner returns the user of this process, and if that is root, which
// PostgreSQL refuses, another one.
func serverOwner() owner {
	if os.Geteuid() != 0 {
		return owner{uid: os.Geteuid(), gid: os.Getegid()}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil {
			return owner{uid: uid, gid: gid, other: true}
		}
	}
	return owner{uid: nobodyID, gid: nobodyID, other: true}
}

// chown gives a file away. A symlink itself is given away, not its target.
func (o owner) chown(path string) error {
	if !o.other {
		return nil
	}
	if err := os.Lchown(path, o.uid, o.gid); err != nil {
		return o.explain(err)
	}
	return nil
}

// prepare makes cmd run as the owner, in a process group of its own, with an
// environment that is always the same.
func (o owner) prepare(cmd *exec.Cmd) {
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if o.other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
}

// explain adds what can be done when root may not become another user, or when
// that user may not reach a file.
func (o owner) explain(err error) error {
	switch {
	case err == nil || !o.other:
		return err
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w (hint: PostgreSQL refuses to run as root, and this root may not become uid %d: "+
			"run as an ordinary user, or with CAP_SETUID, CAP_SETGID and CAP_CHOWN)", err, o.uid)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w (hint: servers run as uid %d, since PostgreSQL refuses root: "+
			"that user must be able to reach the programs and the data directory)", err, o.uid)
	}
	return err
}
