package protocol

// Types of the messages inside CopyData of BASE_BACKUP, from PostgreSQL 15 on
// (basebackup_copy.c).
const (
	MsgBackupArchive  = 'n' // an archive begins
	MsgBackupManifest = 'm' // the manifest begins
	MsgBackupData     = 'd' // bytes of what began last
	MsgBackupProgress = 'p' // bytes done so far
)

// BackupArchive opens one archive: of the data directory, or of a tablespace.
//
//	Byte1('n') | String Name | String Tablespace
type BackupArchive struct {
	Name       string // "base.tar"
	Tablespace string // its path; "" for the data directory
}

// Decode reads a message body, without its type byte.
func (m *BackupArchive) Decode(src []byte) error {
	c := cursor{b: src}
	m.Name, m.Tablespace = string(c.cstring()), string(c.cstring())
	return c.done("BackupArchive")
}

// BackupProgress says how many bytes of the data directory are done.
//
//	Byte1('p') | Int64 Done
type BackupProgress struct{ Done uint64 }

// Decode reads a message body, without its type byte.
func (m *BackupProgress) Decode(src []byte) error {
	c := cursor{b: src}
	m.Done = c.u64()
	return c.done("BackupProgress")
}
