package decoder

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"testing"
)

// crashFiles is a file system that stops at its nth operation: the machine has
// lost power, or the disk fails. Of what it was told before, only that is sure to
// be on disk which was synced.
type crashFiles struct {
	left   int
	memory map[string]*memoryFile // what a program sees
	disk   map[string]*memoryFile // names that are on disk; their contents are synced or anything
}

type memoryFile struct {
	fsys    *crashFiles
	content string
	synced  string
	mode    fs.FileMode
}

var errPower = errors.New("no power")

func (c *crashFiles) step() error {
	if c.left--; c.left < 0 {
		return errPower
	}
	return nil
}

func (c *crashFiles) create(path string) (newFile, error) {
	if err := c.step(); err != nil {
		return nil, err
	}
	f := &memoryFile{fsys: c, mode: 0o644}
	c.memory[path] = f
	return f, nil
}

func (c *crashFiles) rename(from, to string) error {
	if err := c.step(); err != nil {
		return err
	}
	c.memory[to] = c.memory[from]
	delete(c.memory, from)
	return nil
}

func (c *crashFiles) remove(path string) error {
	if err := c.step(); err != nil {
		return err
	}
	delete(c.memory, path)
	return nil
}

func (c *crashFiles) syncDir(string) error {
	if err := c.step(); err != nil {
		return err
	}
	c.disk = maps.Clone(c.memory)
	return nil
}

func (f *memoryFile) Write(p []byte) (int, error) {
	if err := f.fsys.step(); err != nil {
		return 0, err
	}
	f.content += string(p)
	return len(p), nil
}

func (f *memoryFile) Chmod(mode fs.FileMode) error { f.mode = mode; return f.fsys.step() }

func (f *memoryFile) Sync() error {
	if err := f.fsys.step(); err != nil {
		return err
	}
	f.synced = f.content
	return nil
}

func (f *memoryFile) Close() error { return f.fsys.step() }

// afterPowerCut returns what a file can be when the machine comes back: the name
// may or may not be the new one when the directory was not synced, and what was
// not synced of the content may be missing.
func (c *crashFiles) afterPowerCut(path string) (contents []string) {
	for _, names := range []map[string]*memoryFile{c.disk, c.memory} {
		if f := names[path]; f != nil {
			contents = append(contents, f.synced)
		} else {
			contents = append(contents, "gone")
		}
	}
	return contents
}

// Power is lost at every operation of the ledger's writing, one after the other:
// what is there afterwards is the old ledger or the new one, whole, and the new one
// for sure when the write had said that it was done (I-10).
func TestLedgerSurvivesPowerCuts(t *testing.T) {
	const path = "/state/ledger.json"
	for left := 0; ; left++ {
		old := &memoryFile{content: "old", synced: "old", mode: 0o600}
		c := &crashFiles{left: left, memory: map[string]*memoryFile{path: old}, disk: map[string]*memoryFile{path: old}}
		err := replaceFile(c, path, []byte("new"))
		for _, content := range c.afterPowerCut(path) {
			if content != "new" && (content != "old" || err == nil) {
				t.Errorf("power is lost after %d operations, written %v: the ledger is %q", left, err, content)
			}
		}
		if err != nil {
			if !errors.Is(err, errPower) {
				t.Errorf("after %d operations: %v", left, err)
			}
			continue
		}
		if f := c.memory[path]; f.mode != 0o600 || len(c.memory) != 1 {
			t.Errorf("its mode is %v, and there are %v", f.mode, fmt.Sprint(len(c.memory)))
		}
		if left < 6 {
			t.Errorf("%d operations are enough to write a file: this test sees nothing", left)
		}
		return
	}
}
