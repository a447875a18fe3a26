//go:build !linux

package relay

import (
	"net"
	"syscall"
	"time"
)

// rawConn returns nil: the connection is read and written through package net.
func rawConn(syscall.Conn) syscall.RawConn { return nil }

// rawReading and rawWriting are what a raw connection keeps elsewhere.
type (
	rawReading struct{ call func(uintptr) bool }
	rawWriting struct {
		call func(uintptr) bool
		more bool
	}
)

func (*rawReading) try(uintptr) bool { return true }
func (*rawWriting) try(uintptr) bool { return true }

func (w *wire) rawRead(*inbox, bool) error { panic("relay: no raw connection here") }

func (w *wire) rawWrite([]byte) error { panic("relay: no raw connection here") }

// hungUp is not known here: the session ends when the downstream reads or goes.
func (w *wire) hungUp() bool { return false }

// setUserTimeout does nothing: TCP_USER_TIMEOUT is Linux's.
func setUserTimeout(*net.TCPConn, time.Duration) {}
