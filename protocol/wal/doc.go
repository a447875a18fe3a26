// Package wal finds the records in a stream of write-ahead log: which resource
// manager wrote them, of what kind, for which transaction, how long. It does not
// look into a record's data. It is pure, and works on WAL of little-endian
// machines, as all that PostgreSQL is built for today are.
//
// WAL is a row of pages, of 8 kB where nothing else was compiled in. A page
// opens with a header (xlog_internal.h, XLogPageHeaderData), which is longer on
// the first page of a segment:
//
//	+-------------+------------+-----------+----------------+---------------+---------+
//	| Int16 magic | Int16 info | Int32 tli | Int64 pageaddr | Int32 rem_len | 4 bytes |  24 bytes
//	+-------------+------------+-----------+----------------+---------------+---------+
//	+-------------+----------------+-------------------+
//	| Int64 sysid | Int32 seg_size | Int32 xlog_blcksz |                                 16 more
//	+-------------+----------------+-------------------+
//
// A record opens with a header too (xlogrecord.h, XLogRecord), begins at a
// multiple of 8, and goes on behind the next page's header where a page is full;
// rem_len there says how much of it is left:
//
//	+---------------+-----------+------------+-----------+-----------+---------+-----------+
//	| Int32 tot_len | Int32 xid | Int64 prev | Int8 info | Int8 rmid | 2 bytes | Int32 crc |  24 bytes
//	+---------------+-----------+------------+-----------+-----------+---------+-----------+
//
// The magic changes with every major version and so tells it.
package wal
