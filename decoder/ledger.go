package decoder

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// ledgerFile and ledgerVersion name the ledger's file and format.
const (
	ledgerFile    = "ledger.json"
	ledgerVersion = 1
)

// NodeIdentity tells one standby from another, and one life of its data
// directory from an earlier one. A ledger is believed only on the node, and in
// the life, it was written in (I-10).
type NodeIdentity struct {
	SystemIdentifier uint64 `json:"system_identifier,string"`
	DataDirectory    string `json:"data_directory"`
	Host             string `json:"host"` // name of the machine, Config.Host, as the server's own files cannot tell it
}

// Ledger is the helper's record of the slots that are its own. It is written
// before a slot is made and before it is dropped. Its owner is the helper's
// loop; it is not safe for concurrent use.
type Ledger struct {
	path string
	body ledgerBody
}

type ledgerBody struct {
	Version int                  `json:"version"`
	Node    NodeIdentity         `json:"node"`
	Slots   map[string]LedgerRow `json:"slots"`

	// Protection is of the life of the upstream in which it was found to be whole; nil:
	// it is not, as far as is known.
	Protection *Protection `json:"protection,omitempty"`
}

// OpenLedger reads the ledger in dir, or begins an empty one. A ledger of
// another node is renamed out of the way and reported in setAside; its slots
// then have to pass for adoption like any other. An older life of the same node
// shows slot by slot: in slots that are not there, or are behind BornLSN.
func OpenLedger(dir string, node NodeIdentity) (l *Ledger, setAside string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("create state directory: %w", err)
	}
	l = &Ledger{path: filepath.Join(dir, ledgerFile)}
	fresh := ledgerBody{Version: ledgerVersion, Node: node, Slots: map[string]LedgerRow{}}
	raw, err := os.ReadFile(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.body = fresh
		return l, "", l.write()
	case err != nil:
		return nil, "", fmt.Errorf("read ledger: %w", err)
	}
	why := ""
	if l.body, err = parseLedger(raw); err != nil {
		why = err.Error()
	} else {
		why = l.body.foreignTo(node)
	}
	if why == "" {
		return l, "", l.write() // proves at start that it can be written
	}
	aside := fmt.Sprintf("%s.set-aside-%s", l.path, time.Now().UTC().Format("20060102T150405"))
	if err := os.Rename(l.path, aside); err != nil {
		return nil, "", fmt.Errorf("set ledger aside: %w", err)
	}
	l.body = fresh
	return l, fmt.Sprintf("ledger renamed to %s: %s", filepath.Base(aside), why), l.write()
}

// readLedger reads the ledger in dir, if there is one, without touching it.
func readLedger(dir string) (body ledgerBody, found bool, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, ledgerFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ledgerBody{}, false, nil
	case err != nil:
		return ledgerBody{}, false, fmt.Errorf("read ledger: %w", err)
	}
	body, err = parseLedger(raw)
	return body, true, err
}

// parseLedger reads a ledger file. Nothing of a file with an error is believed.
func parseLedger(raw []byte) (ledgerBody, error) {
	var b ledgerBody
	if err := json.Unmarshal(raw, &b); err != nil {
		return ledgerBody{}, fmt.Errorf("parse ledger: %w", err)
	}
	for name, row := range b.Slots {
		switch {
		case name == "" || row.Name != name:
			return ledgerBody{}, fmt.Errorf("parse ledger: row %q is of slot %q", name, row.Name)
		case row.Intent != IntentNone && row.Intent != IntentCopy && row.Intent != IntentDrop:
			return ledgerBody{}, fmt.Errorf("parse ledger: row %q has unknown intent %q", name, row.Intent)
		}
	}
	if b.Slots == nil {
		b.Slots = map[string]LedgerRow{}
	}
	return b, nil
}

// foreignTo says why a ledger is not this node's, or "" when it is.
func (b *ledgerBody) foreignTo(node NodeIdentity) string {
	switch {
	case b.Version != ledgerVersion:
		return fmt.Sprintf("its version is %d, known is %d", b.Version, ledgerVersion)
	case b.Node.SystemIdentifier != node.SystemIdentifier:
		return fmt.Sprintf("it is of system identifier %d, this server is %d", b.Node.SystemIdentifier, node.SystemIdentifier)
	case b.Node.DataDirectory != node.DataDirectory || b.Node.Host != node.Host:
		return fmt.Sprintf("it is of %s on %s, this server is %s on %s",
			b.Node.DataDirectory, b.Node.Host, node.DataDirectory, node.Host)
	}
	return ""
}

// Rows returns a copy of all rows by slot name.
func (l *Ledger) Rows() map[string]LedgerRow { return maps.Clone(l.body.Slots) }

// Update changes rows in one write. When it returns nil they are on disk; when
// it returns an error, nothing has changed.
func (l *Ledger) Update(change func(rows map[string]LedgerRow)) error {
	old := l.body.Slots
	l.body.Slots = maps.Clone(old)
	change(l.body.Slots)
	if maps.Equal(old, l.body.Slots) {
		return nil
	}
	if err := l.write(); err != nil {
		l.body.Slots = old
		return err
	}
	return nil
}

// Protection returns what was known when the ledger was written last.
func (l *Ledger) Protection() Protection {
	if l.body.Protection == nil {
		return Protection{}
	}
	p := l.body.Protection.life()
	p.Whole = true
	return p
}

// Protect writes down that protection is whole, or is not any more.
func (l *Ledger) Protect(p Protection) error {
	var known *Protection
	if p.Whole {
		life := p.life()
		known = &life
	}
	old := l.body.Protection
	if old == nil && known == nil || old != nil && known != nil && *old == *known {
		return nil
	}
	l.body.Protection = known
	if err := l.write(); err != nil {
		l.body.Protection = old
		return err
	}
	return nil
}

// write replaces the file.
func (l *Ledger) write() error {
	raw, err := json.MarshalIndent(&l.body, "", "  ")
	if err != nil {
		return fmt.Errorf("encode ledger: %w", err)
	}
	return replaceFile(osFiles{}, l.path, append(raw, '\n'))
}

// newIntentID draws the 64-bit id of an intent.
func newIntentID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return hex.EncodeToString(b[:])
}
