package preflight

import "github.com/slotferry/slotferry/internal/slotcatalog"

// Server is what is known of one server. A nil *Server was not asked for.
type Server struct {
	Address string // for people

	// ConnectError is set when there was no session; nothing else is known then.
	// Reached is set when it was the server that said no.
	ConnectError string
	ConnectHint  string
	Reached      bool

	Encryption Encryption  // of our session
	Walsenders []Walsender // over the network, as far as the role may see them

	VersionNum       int
	Version          string // as the server calls itself: "17.10"
	InRecovery       bool
	SystemIdentifier uint64            // 0: the role may not know
	Settings         map[string]string // as in pg_settings; one that this version lacks is missing
	WalSenders       int               // in use
	Role             Role
	Slots            []slotcatalog.Slot

	// CanLogSnapshot is whether the role may execute pg_log_standby_snapshot();
	// nil: the server has no such function.
	CanLogSnapshot *bool

	// WalReceiver is nil when there is none.
	WalReceiver *WalReceiver

	// ReplicationError is why a connection with replication=database, as the
	// helper opens one, failed; "" when it did not.
	ReplicationError string

	// ClosedDatabases are those that the role may not connect to, or that take no
	// connections.
	ClosedDatabases []string
}

// Role is who is logged in.
type Role struct {
	Name            string
	Superuser       bool
	Replication     bool
	ReadAllStats    bool // member of pg_read_all_stats, as pg_monitor is
	ReadAllSettings bool
}

// WalReceiver is the row of pg_stat_wal_receiver.
type WalReceiver struct {
	Status   string
	SlotName string
	Sender   string // host:port
	SSLMode  string // in its connection string; "": not said, or not visible
}

// connected reports whether the facts of a server are there.
func (s *Server) connected() bool { return s != nil && s.ConnectError == "" }

// major is the major version: 17 of 170010.
func (s *Server) major() int { return s.VersionNum / 10000 }

// slot returns the server's slot of that name.
func (s *Server) slot(name string) (slotcatalog.Slot, bool) {
	for i := range s.Slots {
		if s.Slots[i].Name == name {
			return s.Slots[i], true
		}
	}
	return slotcatalog.Slot{}, false
}
