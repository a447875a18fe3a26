// Package protocol has the wire formats slotferry reads and writes: LSNs,
// PostgreSQL's streaming replication messages, and slotferry's own two, the
// slot message and the helper report. It is pure: bytes in, values out. It does
// no I/O and knows no clock, logger or context.
//
// All integers are big-endian. Times are Int64 microseconds since 2000-01-01
// 00:00:00 UTC. A String in PostgreSQL's messages ends in a zero byte; a Text in
// slotferry's own has an Int16 length (unsigned) and then that many bytes, any
// bytes, usually UTF-8. A decoder takes a message only if it is exactly right,
// and says where it is not with a MessageError.
//
// # CopyData and the four replication messages
//
// After CopyBothResponse both sides send CopyData frames. The length counts
// itself and the content, not the type byte.
//
//	+-----------+---------------+---------------------------+
//	| Byte1 'd' | Int32 length  | content, length - 4 bytes |
//	+-----------+---------------+---------------------------+
//
// The content is one message. From the walsender (25 bytes and Data, 18 bytes):
//
//	+-----------+-----------------+--------------+----------------+------+
//	| Byte1 'w' | Int64 DataStart | Int64 WALEnd | Int64 SendTime | Data |  XLogData
//	+-----------+-----------------+--------------+----------------+------+
//	+-----------+--------------+----------------+----------------------+
//	| Byte1 'k' | Int64 WALEnd | Int64 SendTime | Byte1 ReplyRequested |  PrimaryKeepalive
//	+-----------+--------------+----------------+----------------------+
//
// and from the walreceiver (34 bytes, 25 bytes):
//
//	+-----------+-------------+-------------+-------------+----------------+----------------------+
//	| Byte1 'r' | Int64 Write | Int64 Flush | Int64 Apply | Int64 SendTime | Byte1 ReplyRequested |  StandbyStatusUpdate
//	+-----------+-------------+-------------+-------------+----------------+----------------------+
//	+-----------+----------------+------------+-----------------+-------------------+------------------------+
//	| Byte1 'h' | Int64 SendTime | Int32 Xmin | Int32 XminEpoch | Int32 CatalogXmin | Int32 CatalogXminEpoch |
//	+-----------+----------------+------------+-----------------+-------------------+------------------------+
//	HotStandbyFeedback
//
// Any other type is forwarded unread.
//
// # Asking for slot messages
//
// Nothing of slotferry's reaches a peer that has not asked for it. A helper
// asks with a startup parameter, which a relay takes out before the packet goes
// upstream, with the packet's length put right:
//
//	+--------------+---------------+-- ... --+----------------------------+-------------+-- ... --+---------+
//	| Int32 length | Int32 version |         | String "_pq_.slotferry"    | String "1"  |         | Byte1 0 |
//	+--------------+---------------+-- ... --+----------------------------+-------------+-- ... --+---------+
//
// A PostgreSQL server that gets it answers NegotiateProtocolVersion with the
// parameter's name, by which the helper knows that there is no relay. Without
// the parameter a relay gives its downstream the upstream's bytes and no other.
//
// The helper then does one of two things. It relays a walreceiver's physical
// START_REPLICATION, and finds slot messages between the WAL. Or it sends a Query
// of its own, SLOT_STATE, which the relay answers itself; the upstream never
// sees it, and would call it a syntax error (42601):
//
//	helper                              relay
//	Query "SLOT_STATE"           ---->
//	                             <----  CopyBothResponse, text format, 0 columns
//	                             <----  CopyData { slot message } ...
//	CopyData { helper report }   ---->
//	CopyDone                     ---->
//	                             <----  CopyDone, CommandComplete "SLOT_STATE", ReadyForQuery
//
// # Slot message
//
// A slot message is an XLogData with DataStart 0/0, an LSN at which no WAL can
// lie. It exists on physical streams and after SLOT_STATE only: on a logical
// stream 0/0 has a meaning of pgoutput's own. WALEnd is the end of WAL already
// forwarded on the connection, never 0/0. Each message is the whole state and
// replaces the one before. A message that does not fit one frame comes in parts,
// each an XLogData of its own; WAL may lie between two. The Data of a part:
//
//	  0  +-------------------------------+
//	     | Byte8 "SLTFERRY"              |  magic: whatever begins so is taken out of the stream,
//	  8  +-------------------------------+  damaged or of another version too
//	     | Int16 version = 1             |
//	 10  +-------------------------------+
//	     | Int64 epoch                   |  at random, for each connection that the slots are read over
//	 18  +-------------------------------+
//	     | Int64 sequence                |  counts up within an epoch
//	 26  +-------------------------------+
//	     | Int16 number                  |  of this part, from 0
//	 28  +-------------------------------+
//	     | Int16 count                   |  of parts, 1 to 65,535
//	 30  +-------------------------------+
//	     | Int32 payload length          |  of all chunks together
//	 34  +-------------------------------+
//	     | Int32 payload CRC-32C         |  of all chunks joined: binds the parts to each other
//	 38  +-------------------------------+
//	     | chunk, at least 1 byte        |
//	n-4  +-------------------------------+
//	     | Int32 CRC-32C                 |  of bytes 0 to n-5
//	  n  +-------------------------------+
//
// A reader applies a message when it has parts 0 to count-1 in order, with the
// same header but for the number, and the payload's length and CRC are right. A
// part that does not fit throws the unfinished message away; part 0 begins anew.
// CRC-32C is the one of WAL: polynomial 0x1EDC6F41, reflected, inverted.
//
// # Payload
//
// The chunks joined. Text fields are marked T; a NULL is 0, 0/0 or "".
//
//	 0  +---------------------------------------------------------------------+
//	    | Int64 system identifier                                             |
//	 8  +---------------------------------------------------------------------+
//	    | Int32 timeline                                                      |
//	12  +---------------------------------------------------------------------+
//	    | Int64 postmaster start time                                         |
//	20  +---------------------------------------------------------------------+
//	    | Int32 server_version_num                                            |
//	24  +---------------------------------------------------------------------+
//	    | Byte1 in recovery, 0 or 1                                           |
//	25  +---------------------------------------------------------------------+
//	    | Int64 capture LSN: the upstream's position when the slots were read |
//	33  +---------------------------------------------------------------------+
//	    | Int64 capture time: the upstream's clock at that moment             |
//	41  +---------------------------------------------------------------------+
//	    | Int64 interval: microseconds until the next message is due          |
//	49  +---------------------------------------------------------------------+
//	    | list of logical slots                                               |
//	    +---------------------------------------------------------------------+
//	    | list of physical slots                                              |
//	    +---------------------------------------------------------------------+
//	    | list of open transactions: the oldest with an xid of each database  |
//	    +---------------------------------------------------------------------+
//	    | list of prepared transactions: all                                  |
//	    +---------------------------------------------------------------------+
//	    | optional fields, to the end of the payload                          |
//	    +---------------------------------------------------------------------+
//
// A list is a count and so many records, each behind its length:
//
//	+-------------+   +--------------+--------+-----------------------------------------+
//	| Int32 count |   | Int32 length | fields | optional fields, to the end of the length |  x count
//	+-------------+   +--------------+--------+-----------------------------------------+
//
// The fields of the four kinds of records, in order:
//
//	logical slot    T name | T plugin | T database | Int64 restart_lsn | Int64 confirmed_flush_lsn |
//	                Int32 catalog_xmin | Int16 flags | Int64 two_phase_at | T invalidation reason |
//	                T wal_status | Int64 inactive_since | Byte1 readiness
//	                  flags: 1 two_phase, 2 failover, 4 synced, 8 active
//	                  readiness: 0 unknown, 1 ready, 2 not ready; 0 where the upstream is a primary
//	physical slot   T name | Int16 flags | Int64 restart_lsn | Int32 xmin | Int32 catalog_xmin
//	                  flags: 1 active, 2 temporary
//	open xact       T database | Int32 xid | Int32 pid | Int64 xact_start
//	prepared xact   T database | T gid | Int32 xid | Int64 prepared
//
// An optional field, of which version 1 defines none:
//
//	+-----------+--------------+--------------+
//	| Int16 tag | Int32 length | length bytes |
//	+-----------+--------------+--------------+
//
// # Helper report
//
// What a helper says to the relay, on either kind of connection, in a CopyData
// of its own that the relay takes out. It is the whole state, too.
//
//	+------------+------------------+-------------------+-------------------------+-----------+
//	| Byte1 'f'  | Byte8 "SLTFERRY" | Int16 version = 1 | Int64 system identifier | T standby |
//	+------------+------------------+-------------------+-------------------------+-----------+
//	| Int64 snapshot request        | list of (T name | T state | T reason)                   |
//	+-------------------------------+---------------------------------------------------------+
//	| optional fields, to the CRC                                                             |
//	+-----------------------------------------------------------------------------------------+
//	| Int32 CRC-32C of all from the magic on                                                  |
//	+-----------------------------------------------------------------------------------------+
//
// # Versions
//
// Within version 1 a writer may add optional fields, at the end of a record or
// of the message, that a reader does no harm in ignoring, and may use words in a
// Text that no reader has seen: a reason, a wal_status, a state (which is then
// not ready). A tag once given keeps its meaning. A reader skips every tag it
// does not know, in any order.
//
// Everything else needs version 2: a field that must be understood, another
// order, size or meaning, a new bit in flags, a new readiness, another checksum,
// larger limits. Only the magic and the Int16 behind it stay where they are in
// every version. A reader takes a version it does not know out of the stream,
// reports ErrVersion and reads nothing behind it; its last state grows old,
// which is safe. A helper that wants version 2 asks for it by another value of
// the startup parameter.
//
// # Capture file
//
// What "slotferry debug capture" writes: a header, then records to the end of
// the file. Records are appended, whole, by one writer; a file that ends within
// one was torn when its writer was killed, and is right up to there. Bytes that
// are no record, and are not the end of the file, are damage: a reader looks for
// the next bytes 0xF5 0x1A that begin a record with the right CRC.
//
//	 0  +--------------------------+
//	    | Byte8 "SLTFCAPT"         |
//	 8  +--------------------------+
//	    | Int16 version = 1        |
//	10  +--------------------------+
//	    | Int16 flags              |  1: passwords and keys were not masked
//	12  +--------------------------+
//	    | Int64 created            |
//	20  +--------------------------+
//	    | Int32 0                  |
//	24  +--------------------------+
//	    | Int32 CRC-32C            |  of bytes 0 to 23
//	28  +--------------------------+
//
// A record:
//
//	 0  +--------------------------+
//	    | Byte2 0xF5 0x1A          |
//	 2  +--------------------------+
//	    | Byte1 kind               |
//	 3  +--------------------------+
//	    | Byte1 0                  |
//	 4  +--------------------------+
//	    | Int32 n                  |  length of the payload, at most 1,048,576
//	 8  +--------------------------+
//	    | Int64 time               |  when the bytes were read, or about to be written
//	16  +--------------------------+
//	    | Int32 connection         |  number of the connection, from 1
//	20  +--------------------------+
//	    | Byte[n] payload          |
//	20+n+--------------------------+
//	    | Int32 CRC-32C            |  of all before it in the record
//	24+n+--------------------------+
//
// The kinds, and their payloads:
//
//	1  opened      T downstream address | T upstream address
//	2  downstream  bytes that went from the upstream to the downstream
//	3  upstream    bytes that went from the downstream to the upstream
//	4  closed      nothing
//	5  resumed     the connection goes on from an earlier file, which became full:
//	               Byte1 phase | Byte1 copy | Int32 rest downstream | Int32 rest upstream |
//	               Int32 length | Byte[length] command
//	                 phase: 0 startup, 1 login, 2 session, 3 encrypted
//	                 copy: 0 none, 1 physical, 2 logical, 3 slot state, 4 base backup, 5 other, 6 unknown
//	                 rest: bytes of the message under way that are still to come
//	                 command: the text of the Query that is being answered
//
// The bytes of a direction, joined, are what went over the wire; where a record
// ends says nothing about messages. What is masked, byte for byte with '*', keeps
// its length: PasswordMessage and GSSResponse whole, the proof (p=) and the server
// signature (v=) of SCRAM, the data of other SASL mechanisms, passwords in the text
// of a Query or Parse, the keys of BackendKeyData and CancelRequest.
//
// # Limits
//
//	startup packet               10,004 bytes, length field included (PostgreSQL's limit)
//	body of a part               65,536 bytes (MaxPartBody), so that it delays WAL no longer than WAL does
//	payload of a message      8,388,608 bytes (MaxPayload), some 40,000 slots
//	parts of a message           65,535
//	helper report             1,048,576 bytes (MaxHelperReport), type byte included, some 8,000 slots
//	text                         65,535 bytes
//	record, optional field   what it stands in
//
// Encoders refuse what exceeds them, as decoders do. A decoder allocates at most
// a small multiple of its input, whatever a count in it claims.
//
// Test vectors stand in testdata/slotmessage and testdata/helperreport.
package protocol
