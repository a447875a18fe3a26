package main

import (
	"unsafe"

	"github.com/slotferry/slotferry/internal/conninfo"
)

// hideSecrets overwrites the secrets in the process's own arguments, where ps
// would show them to everybody. The runtime's argument strings are the memory
// that the kernel shows. Between exec and this call they are seen: a password
// file has no such moment.
//
// args must be os.Args itself, and every string that is still needed a clone.
func hideSecrets(args []string) {
	for _, arg := range args {
		for _, span := range conninfo.Secrets(arg) {
			secret := unsafe.Slice(unsafe.StringData(arg), len(arg))[span.Start:span.End]
			for i := range secret {
				secret[i] = '*'
			}
		}
	}
}
