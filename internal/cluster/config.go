package cluster

import (
	"errors"
	"fmt"

	"github.com/slotferry/slotferry/internal/pgbin"
)

// Config says how to start a primary. Bin is all it needs.
type Config struct {
	// Bin is where the programs are, from pgbin.Find.
	Bin pgbin.Installation

	// Name is application_name on replication connections and stands in errors.
	// Empty means "primary".
	Name string

	// Dir holds the data directory, the socket and the log, and must not exist or
	// be empty. Empty means a temporary directory that Close removes. When the
	// caller is root, Dir must be reachable by the user that servers run as.
	Dir string

	// Port is the TCP port on 127.0.0.1. 0 means a free one.
	Port int

	// Settings are added to the defaults, or replace them.
	Settings map[string]string

	// HBA are the lines of pg_hba.conf for TCP connections. Empty means trust for
	// all, replication included. The Unix socket is always open to the superuser,
	// since Connect uses it.
	HBA []string

	// InitdbArgs are added to initdb's, for example "--wal-segsize=1".
	InitdbArgs []string

	// TemplateDir is where the results of initdb are kept. Empty means a directory
	// in os.UserCacheDir.
	TemplateDir string
}

// defaultSettings are for a primary that can have physical and logical standbys,
// and for a standby that decodes.
var defaultSettings = map[string]string{
	"fsync":                           "off",
	"wal_level":                       "logical",
	"max_connections":                 "100",
	"max_wal_senders":                 "20",
	"max_replication_slots":           "40",
	"max_worker_processes":            "20",
	"max_logical_replication_workers": "12",
	"max_prepared_transactions":       "20",
	"hot_standby_feedback":            "on",
	"wal_receiver_status_interval":    "1s",
	"wal_retrieve_retry_interval":     "100ms",
	"shared_buffers":                  "16MB",
	"min_wal_size":                    "64MB",
	"jit":                             "off",
	"huge_pages":                      "off",
	"logging_collector":               "off",
	"log_destination":                 "stderr",
	"log_line_prefix":                 "%m [%p] %b %a ",
	"log_replication_commands":        "on",
	"lc_messages":                     "C",
	"timezone":                        "UTC",
	"log_timezone":                    "UTC",
	"listen_addresses":                "127.0.0.1",

	// The mmap files are in the data directory, and so do not survive it as the
	// files of the posix implementation do when a server is killed.
	"dynamic_shared_memory_type": "mmap",
}

var defaultHBA = []string{
	"host all all 127.0.0.1/32 trust",
	"host replication all 127.0.0.1/32 trust",
}

// socketHBA comes before all other lines.
var socketHBA = []string{
	"local all all trust",
	"local replication all trust",
}

// maxSocketPath is the size of sockaddr_un.sun_path, less its final zero.
const maxSocketPath = 107

func (c *Config) validate() error {
	var errs []error
	if c.Bin.BinDir == "" {
		errs = append(errs, errors.New("Bin is not set"))
	}
	if c.Port < 0 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("port %d is out of range", c.Port))
	}
	return errors.Join(errs...)
}
