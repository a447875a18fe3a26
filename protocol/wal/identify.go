package wal

import "fmt"

const (
	rmXLOG       = 0
	rmXact       = 1
	rmHeap2      = 9
	rmHeap       = 10
	rmBRIN       = 17
	rmMaxBuiltin = 21
	rmMinCustom  = 128 // RM_MIN_CUSTOM_ID (rmgr.h)
)

// managers are the resource managers of rmgrlist.h, in order: the same from 13
// to 18.
var managers = [rmMaxBuiltin + 1]string{
	"XLOG", "Transaction", "Storage", "CLOG", "Database", "Tablespace", "MultiXact", "RelMap", "Standby", "Heap2",
	"Heap", "Btree", "Hash", "Gin", "Gist", "Sequence", "SPGist", "BRIN", "CommitTs", "ReplicationOrigin", "Generic",
	"LogicalMessage",
}

// kinds are what each resource manager's rm_identify says to the upper half of a
// record's info, as of PostgreSQL 18.
var kinds = [rmMaxBuiltin + 1][16]string{
	{0: "CHECKPOINT_SHUTDOWN", 1: "CHECKPOINT_ONLINE", 2: "NOOP", 3: "NEXTOID", 4: "SWITCH", 5: "BACKUP_END",
		6: "PARAMETER_CHANGE", 7: "RESTORE_POINT", 8: "FPW_CHANGE", 9: "END_OF_RECOVERY", 10: "FPI_FOR_HINT",
		11: "FPI", 13: "OVERWRITE_CONTRECORD", 14: "CHECKPOINT_REDO"},
	{0: "COMMIT", 1: "PREPARE", 2: "ABORT", 3: "COMMIT_PREPARED", 4: "ABORT_PREPARED", 5: "ASSIGNMENT",
		6: "INVALIDATION"},
	{1: "CREATE", 2: "TRUNCATE"},
	{0: "ZEROPAGE", 1: "TRUNCATE"},
	{0: "CREATE_FILE_COPY", 1: "CREATE_WAL_LOG", 2: "DROP"},
	{0: "CREATE", 1: "DROP"},
	{0: "ZERO_OFF_PAGE", 1: "ZERO_MEM_PAGE", 2: "CREATE_ID", 3: "TRUNCATE_ID"},
	{0: "UPDATE"},
	{0: "LOCK", 1: "RUNNING_XACTS", 2: "INVALIDATIONS"},
	{0: "REWRITE", 1: "PRUNE_ON_ACCESS", 2: "PRUNE_VACUUM_SCAN", 3: "PRUNE_VACUUM_CLEANUP", 4: "VISIBLE",
		5: "MULTI_INSERT", 6: "LOCK_UPDATED", 7: "NEW_CID", 13: "MULTI_INSERT+INIT"},
	{0: "INSERT", 1: "DELETE", 2: "UPDATE", 3: "TRUNCATE", 4: "HOT_UPDATE", 5: "HEAP_CONFIRM", 6: "LOCK", 7: "INPLACE",
		8: "INSERT+INIT", 10: "UPDATE+INIT", 12: "HOT_UPDATE+INIT"},
	{0: "INSERT_LEAF", 1: "INSERT_UPPER", 2: "INSERT_META", 3: "SPLIT_L", 4: "SPLIT_R", 5: "INSERT_POST", 6: "DEDUP",
		7: "DELETE", 8: "UNLINK_PAGE", 9: "UNLINK_PAGE_META", 10: "NEWROOT", 11: "MARK_PAGE_HALFDEAD", 12: "VACUUM",
		13: "REUSE_PAGE", 14: "META_CLEANUP"},
	{0: "INIT_META_PAGE", 1: "INIT_BITMAP_PAGE", 2: "INSERT", 3: "ADD_OVFL_PAGE", 4: "SPLIT_ALLOCATE_PAGE",
		5: "SPLIT_PAGE", 6: "SPLIT_COMPLETE", 7: "MOVE_PAGE_CONTENTS", 8: "SQUEEZE_PAGE", 9: "DELETE",
		10: "SPLIT_CLEANUP", 11: "UPDATE_META_PAGE", 12: "VACUUM_ONE_PAGE"},
	{1: "CREATE_PTREE", 2: "INSERT", 3: "SPLIT", 4: "VACUUM_PAGE", 5: "DELETE_PAGE", 6: "UPDATE_META_PAGE",
		7: "INSERT_LISTPAGE", 8: "DELETE_LISTPAGE", 9: "VACUUM_DATA_LEAF_PAGE"},
	{0: "PAGE_UPDATE", 1: "DELETE", 2: "PAGE_REUSE", 3: "PAGE_SPLIT", 6: "PAGE_DELETE", 7: "ASSIGN_LSN"},
	{0: "LOG"},
	{1: "ADD_LEAF", 2: "MOVE_LEAFS", 3: "ADD_NODE", 4: "SPLIT_TUPLE", 5: "PICKSPLIT", 6: "VACUUM_LEAF",
		7: "VACUUM_ROOT", 8: "VACUUM_REDIRECT"},
	{0: "CREATE_INDEX", 1: "INSERT", 2: "UPDATE", 3: "SAMEPAGE_UPDATE", 4: "REVMAP_EXTEND", 5: "DESUMMARIZE",
		9: "INSERT+INIT", 10: "UPDATE+INIT"},
	{0: "ZEROPAGE", 1: "TRUNCATE"},
	{0: "SET", 1: "DROP"},
	{0: "Generic"},
	{0: "MESSAGE"},
}

// heap2Before17 are those of Heap2 that 17 gave another meaning.
var heap2Before17 = [4]string{0: "REWRITE", 1: "PRUNE", 2: "VACUUM", 3: "FREEZE_PAGE"}

// Manager returns the name of the resource manager, as pg_waldump prints it.
func (r *Record) Manager() string {
	if r.Rmid <= rmMaxBuiltin {
		return managers[r.Rmid]
	}
	return fmt.Sprintf("custom%03d", r.Rmid)
}

// Kind returns what the resource manager of that major version calls this kind
// of record; "UNKNOWN (c0)" when it is not known.
func (r *Record) Kind(major int) string {
	op := r.Info >> 4
	if r.Rmid == rmXact {
		op &= 7 // XLOG_XACT_OPMASK (xact.h): the highest bit is a flag
	}
	switch {
	case r.Rmid > rmMaxBuiltin:
	case r.Rmid == rmHeap2 && major != 0 && major < 17 && int(op) < len(heap2Before17):
		return heap2Before17[op]
	case kinds[r.Rmid][op] != "":
		return kinds[r.Rmid][op]
	}
	return fmt.Sprintf("UNKNOWN (%x)", r.Info&0xF0)
}
